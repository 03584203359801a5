#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "fovea/models/batches.h"
#include "fovea/ops/step.h"

// Scores of given tokens, by a full pass of any family of models. T tokens of all sequences without padding.
namespace fovea::models {

// Sequences behind each other: tokens [T] int64 on a device, offsets [B + 1] int64 on the CPU.
struct PackedSentences {
  at::Tensor tokens, offsets;
};
PackedSentences pack(std::span<const Sentence* const> sentences, const at::Device& device);

// The sums over some tokens.
struct GivenScore {
  double nll = 0;  // of -log p, in nats
  int64_t tokens = 0;
  int64_t correct = 0;  // tokens that were the most probable ones

  double mean_nll() const { return nll / static_cast<double>(tokens); }
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(tokens); }
  // Adds the targets [T] int64 of a pass, whose hidden states [T, M] stand before the model's output layer.
  template <class Model>
  void add(const Model& model, const at::Tensor& hidden, const at::Tensor& targets) {
    add(ops::token_scores(hidden, model->output_weight(), model->output_bias(), targets));
  }
  void add(const ops::TokenScores& scores);
};

// The scores token by token, on the CPU. Throws the Error of a model that diverged (diverged.h) if -log p of a token
// that is asked for is not finite.
class TokenScorer {
 public:
  template <class Model>
  TokenScorer(const Model& model, const at::Tensor& hidden, const at::Tensor& targets)
      : TokenScorer(ops::token_scores(hidden, model->output_weight(), model->output_bias(), targets)) {}

  float nll(int64_t token) const;
  bool is_best(int64_t token) const { return best_.const_data_ptr<bool>()[token]; }
  // The sums over tokens `begin` ... `end` - 1, in their order.
  GivenScore sum(int64_t begin, int64_t end) const;

 private:
  explicit TokenScorer(const ops::TokenScores& scores) : nll_(scores.nll.cpu()), best_(scores.best.cpu()) {}
  at::Tensor nll_, best_;  // [T] float32 and bool
};

}  // namespace fovea::models
