#pragma once
#include <cstdint>
#include <functional>

#include "fovea/base/collective.h"
#include "fovea/data/streams.h"
#include "fovea/data/token_text.h"
#include "fovea/models/scorer.h"
#include "fovea/nn/model.h"
#include "fovea/tasks/language/measures.h"

namespace fovea::language {

// The options of scoring a text: windows of `context` units move by `stride`. With memory, each document is one stream
// of segments of `context` units, so the stride is the context.
struct ScoringOptions {
  int64_t context = 512, stride = 512;
  int64_t mini_batch = 16;  // windows, or documents with memory, at a time; results do not depend on it
  int64_t memory = 0;       // units before a segment that it sees too
};

// Scores texts under a model whose weights do not change while this lives.
class ScoreText {
 public:
  // The processes of a team share the windows; texts with memory are read by each.
  ScoreText(nn::Model model, const ScoringOptions& options, Collective& team = alone())
      : model_(std::move(model)), options_(options), team_(team) {}

  // log p of each unit, in the order of the text, if `see` is given. Throws Interrupted when a signal comes, and an
  // Error if the model's scores are not finite.
  using See = std::function<void(double log_prob)>;
  TextScore run(const data::TokenText& text, int64_t begin, const See& see = nullptr) const;

 private:
  class Tally;
  // Reads the windows, or the documents' segments, and shows the tally their units in the order of the text.
  void run_windows(const data::ScoringWindows& windows, Tally& tally) const;
  void run_streams(const data::ScoringWindows& windows, Tally& tally) const;
  struct Packed;
  models::TokenScorer scorer_of(Packed& packed, const std::shared_ptr<nn::MemoryPass>& memory) const;

  nn::Model model_;
  ScoringOptions options_;
  Collective& team_;
};

}  // namespace fovea::language
