#pragma once
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <string>

#include "fovea/nn/test_models.h"
#include "fovea/ops/step.h"

// Losses of tiny models and their gradients, for the tests of this folder.
namespace fovea::nn::testing {

inline at::Tensor loss_of(Model& model, const Packed& source, const Packed& target, const ForwardContext& context) {
  const at::Tensor memory = model->encode({source.tokens, source.offsets}, context);
  const at::Tensor hidden = model->decode({target.tokens, target.offsets, memory, source.offsets}, context);
  return ops::cross_entropy(hidden, model->output_layer(), target.tokens, 0.1).loss;
}

inline at::Tensor loss_of(Model& model, const Packed& text, const ForwardContext& context) {
  const at::Tensor hidden = model->decode({text.tokens, text.offsets}, context);
  return ops::cross_entropy(hidden, model->output_layer(), text.tokens, 0.1).loss;
}

inline at::Tensor random_like(const at::Tensor& x, uint64_t seed) {
  Rng rng(seed);
  at::Tensor result = torch::empty(x.sizes(), at::kDouble);
  for (int64_t i = 0; i < x.numel(); ++i) result.data_ptr<double>()[i] = rng.normal();
  return result;
}

// Every parameter of a model in double along a random direction, against central differences. `loss` draws the same
// dropout masks each time.
inline void check_gradients(torch::nn::Module& model, const std::function<at::Tensor()>& loss) {
  model.zero_grad();
  loss().backward();
  const torch::NoGradGuard guard;
  uint64_t seed = 100;
  for (auto& item : model.named_parameters()) {
    at::Tensor& parameter = item.value();
    ASSERT_TRUE(parameter.grad().defined()) << item.key();
    const at::Tensor direction = random_like(parameter, ++seed);
    const double derivative = (parameter.grad() * direction).sum().item<double>();
    constexpr double kStep = 1e-6;
    parameter.add_(direction, kStep);
    const double above = loss().item<double>();
    parameter.add_(direction, -2 * kStep);
    const double below = loss().item<double>();
    parameter.add_(direction, kStep);
    const double difference = (above - below) / (2 * kStep);
    // The loss, near 40, comes back in float64 from the operator only as exact as its type: the differences' noise is
    // 40 * 2^-53 / step = 4e-9 in double, and their bias is of order step^2 times the third derivative.
    EXPECT_NEAR(derivative, difference, 1e-5 * (1 + std::abs(difference))) << item.key();
  }
}

inline std::map<std::string, at::Tensor> gradients_of(torch::nn::Module& model, const at::Tensor& loss) {
  model.zero_grad();
  loss.backward();
  std::map<std::string, at::Tensor> all;
  for (auto& item : model.named_parameters()) all[item.key()] = item.value().grad().clone();
  return all;
}

}  // namespace fovea::nn::testing
