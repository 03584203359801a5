#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cmath>

#include "fovea/nn/test_models.h"

namespace fovea::nn::vector_input_test {
namespace {

ModelConfig config_of(const std::string& positions, std::vector<int64_t> vocabularies) {
  ModelConfig config = testing::tiny();
  config.transformer_positions = positions;
  config.dim_vocabs = std::move(vocabularies);
  return config;
}

// A model that reads one-hot vectors, times the embeddings' factor, is the model that reads tokens.
TEST(VectorInput, OneHotVectorsAreTokens) {
  const torch::NoGradGuard guard;
  Model tokens(config_of("none", {17, 19}), 5);
  Model vectors(config_of("none", {19}), 6, MediaInput{.vectors = {.width = 17}});
  auto parameters = vectors->named_parameters();
  for (const auto& parameter : tokens->named_parameters()) {
    if (parameter.key() != "encoder.embeddings.weight") parameters[parameter.key()].copy_(parameter.value());
  }
  parameters["encoder.features.weight"].copy_(tokens->named_parameters()["encoder.embeddings.weight"].t() *
                                              std::sqrt(12.0));
  EXPECT_EQ(parameters.size(), tokens->named_parameters().size() + 1) << "a bias more";
  const at::Tensor ids = at::tensor({3, 16, 0, 3, 5}, at::kLong), offsets = at::tensor({0, 2, 5}, at::kLong);
  const at::Tensor expected = tokens->encode({ids, offsets}, {});
  const at::Tensor memory = vectors->encode({at::one_hot(ids, 17).to(at::kFloat), offsets}, {});
  EXPECT_TRUE(at::allclose(memory, expected, 1e-5, 1e-5)) << "two products of 17 numbers round differently";
}

// Learned places tell the same vector at two places apart; without places the order does not matter.
TEST(VectorInput, PlacesAreLearned) {
  const torch::NoGradGuard guard;
  const at::Tensor vectors = at::randn({2, 7}), offsets = at::tensor({0, 2}, at::kLong);
  for (const int64_t places : {0, 2}) {
    Model model(config_of("sinusoidal", {19}), 5, MediaInput{.vectors = {.width = 7, .places = places}});
    EXPECT_EQ(model->named_parameters().contains("encoder.positions.weight"), places > 0);
    const at::Tensor memory = model->encode({vectors, offsets}, {});
    const at::Tensor turned = model->encode({vectors.flip(0), offsets}, {}).flip(0);
    EXPECT_EQ(at::allclose(memory, turned, 1e-5, 1e-5), places == 0);
  }
}

// The gradient of the linear map by finite differences.
TEST(VectorInput, HasGradients) {
  Model model(config_of("sinusoidal", {19}), 5, MediaInput{.vectors = {.width = 3, .places = 2}});
  model->to(at::kDouble);
  const at::Tensor vectors = at::randn({4, 3}, at::kDouble), offsets = at::tensor({0, 2, 4}, at::kLong);
  const at::Tensor direction = at::randn({4, 12}, at::kDouble);
  const auto value = [&] { return (model->encode({vectors, offsets}, {}) * direction).sum(); };
  value().backward();
  for (const char* name : {"encoder.features.weight", "encoder.features.bias", "encoder.positions.weight"}) {
    at::Tensor weight = model->named_parameters()[name];
    const double expected = weight.grad().flatten()[1].item<double>();
    const torch::NoGradGuard guard;
    constexpr double kStep = 1e-5;
    at::Tensor flat = weight.view(-1);
    flat[1] += kStep;
    const double above = value().item<double>();
    flat[1] -= 2 * kStep;
    const double below = value().item<double>();
    flat[1] += kStep;
    EXPECT_NEAR((above - below) / (2 * kStep), expected, 1e-6 * std::max(1.0, std::abs(expected))) << name;
  }
}

}  // namespace
}  // namespace fovea::nn::vector_input_test
