#pragma once
#include <cstdint>
#include <functional>

#include "fovea/data/streams.h"
#include "fovea/data/token_text.h"
#include "fovea/nn/decoder_only.h"
#include "fovea/tasks/language/measures.h"

namespace fovea::language {

// How a text is scored: in windows of `context` units that move by `stride`.
struct ScoringOptions {
  int64_t context = 512, stride = 512;
  int64_t mini_batch = 16;  // windows at a time; results do not depend on it
};

// Scores texts under a model whose weights do not change while this lives.
class ScoreText {
 public:
  ScoreText(nn::DecoderOnly model, const ScoringOptions& options) : model_(std::move(model)), options_(options) {}

  // log p of each unit, in the order of the text, if `see` is given. Throws Interrupted when a signal comes, and an
  // Error if the model's scores are not finite.
  using See = std::function<void(double log_prob)>;
  TextScore run(const data::TokenText& text, int64_t eos, const See& see = nullptr) const;

 private:
  nn::DecoderOnly model_;
  ScoringOptions options_;
};

}  // namespace fovea::language
