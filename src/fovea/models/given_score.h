#pragma once
#include <cstdint>

namespace at {
class Tensor;
}
namespace fovea::ops {
struct TokenScores;
}

namespace fovea::models {

// The sums over some tokens that were given to a model; scorer.h computes them.
struct GivenScore {
  double nll = 0;  // of -log p, in nats
  int64_t tokens = 0;
  int64_t correct = 0;  // tokens that were the most probable ones

  bool operator==(const GivenScore&) const = default;
  GivenScore& operator+=(const GivenScore& other) {
    nll += other.nll;
    tokens += other.tokens;
    correct += other.correct;
    return *this;
  }
  // The means are NaN without tokens.
  double mean_nll() const { return nll / static_cast<double>(tokens); }
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(tokens); }
  // Adds the targets [T] int64 of a pass, whose hidden states [T, M] stand before the model's output layer.
  template <class Model>
  void add(const Model& model, const at::Tensor& hidden, const at::Tensor& targets);
  void add(const ops::TokenScores& scores);
};

}  // namespace fovea::models
