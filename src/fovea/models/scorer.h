#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "fovea/models/batches.h"
#include "fovea/models/given_score.h"
#include "fovea/ops/step.h"

// Scores of given tokens, by a full pass of any family of models. T tokens of all sequences without padding.
namespace fovea::models {

// Sequences behind each other: tokens [T] int64 on a device, offsets [B + 1] int64 on the CPU.
struct PackedSentences {
  at::Tensor tokens, offsets;
};
PackedSentences pack(std::span<const Sentence* const> sentences, const at::Device& device);

template <class Model>
void GivenScore::add(const Model& model, const at::Tensor& hidden, const at::Tensor& targets) {
  add(ops::token_scores(hidden, model->output_layer(), targets));
}

// Scores token by token, on the CPU. Throws the Error of a model that diverged (diverged.h) if -log p of a token that
// is asked for is not finite.
class TokenScorer {
 public:
  template <class Model>
  TokenScorer(const Model& model, const at::Tensor& hidden, const at::Tensor& targets)
      : TokenScorer(ops::token_scores(hidden, model->output_layer(), targets)) {}

  float nll(int64_t token) const;
  bool is_best(int64_t token) const { return best_.const_data_ptr<bool>()[token]; }
  // The sums over tokens `begin` ... `end` - 1, in their order.
  GivenScore sum(int64_t begin, int64_t end) const;

 private:
  explicit TokenScorer(const ops::TokenScores& scores) : nll_(scores.nll.cpu()), best_(scores.best.cpu()) {}
  at::Tensor nll_, best_;  // [T] float32 and bool
};

}  // namespace fovea::models
