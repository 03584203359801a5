#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "fovea/models/draft_seed.h"
#include "fovea/models/search_model.h"
#include "fovea/search/sample.h"

namespace fovea::models {

// The rules for the units that may follow, and for the end of a text.
struct SamplingRules {
  search::SampleOptions choice;
  int64_t max_length = 200;         // units added to a prompt, at most
  std::vector<int64_t> never = {};  // units that are not chosen, as if their probability were 0
  std::vector<int64_t> ends = {};   // the units that end a text
  nn::StreamCut cut = {};           // how the model reads a text
  nn::CacheType cache = nn::CacheType::kModel;
};

// One text to make: its prompt, which begins with the unit that begins every text, and the seed of its choices.
struct Draft {
  std::vector<int64_t> prompt;
  uint64_t seed = 0;
};

// Makes texts with a model whose weights do not change while this lives.
class Sampler {
 public:
  Sampler(nn::Model model, const SamplingRules& rules, ops::PrepackedLayer::Format format);

  // Makes all drafts together, step by step. Shows each unit as it is chosen: the draft's index and the unit. A text
  // does not depend on the others. Throws Interrupted when a signal comes, and an Error if the model's scores are not
  // finite.
  using See = std::function<void(size_t draft, int64_t unit)>;
  void run(std::span<const Draft> drafts, const See& see) const;

 private:
  SearchModel model_;
  SamplingRules rules_;
};

}  // namespace fovea::models
