#include "fovea/nn/relative_positions.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "fovea/nn/test_models.h"

namespace fovea::nn::relative_positions_test {
namespace {

using namespace testing;

TEST(RelativePositions, SlopesOfAlibi) {
  EXPECT_EQ(alibi_slopes(1), std::vector<double>({0x1p-8}));
  EXPECT_EQ(alibi_slopes(4), std::vector<double>({0x1p-2, 0x1p-4, 0x1p-6, 0x1p-8}));
  EXPECT_EQ(alibi_slopes(3), std::vector<double>({0x1p-4, 0x1p-8, 0x1p-2}));
  EXPECT_EQ(alibi_slopes(6), std::vector<double>({0x1p-2, 0x1p-4, 0x1p-6, 0x1p-8, 0x1p-1, 0x1p-3}));
}

// sin, then cos, of distance / 10000^(2 j / M): M = 4 has the frequencies 1 and 1/100.
TEST(RelativePositions, SinesOfDistances) {
  const at::Tensor table = distance_table(torch::tensor({3.0, -1.0}), 4);
  const double expected[2][4] = {{std::sin(3.0), std::sin(0.03), std::cos(3.0), std::cos(0.03)},
                                 {std::sin(-1.0), std::sin(-0.01), std::cos(1.0), std::cos(0.01)}};
  for (int row = 0; row < 2; ++row)
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(table[row][i].item<double>(), expected[row][i], 1e-7);
  EXPECT_EQ(distance_table(torch::tensor({1.0}), 3).sizes(), at::IntArrayRef({1, 3}));
}

DecoderConfig positioned(const std::string& positions, const std::string& attention = "full") {
  DecoderConfig config = tiny_decoder(attention);
  config.transformer_positions = positions;
  config.max_positions = 64;
  return config;
}

constexpr const char* kSchemes[] = {"shaw(3)",        "shaw(2,values)",
                                    "transformer-xl", "transformer-xl(clamp=4)",
                                    "alibi",          "learned+rotary+shaw(2,values)+transformer-xl(clamp=3)+alibi"};

TEST(RelativePositions, StepByStepIsTheFullPass) {
  for (const std::string positions : kSchemes) {
    for (const char* attention : {"full", "topk(3)", "window(4)", "strided(3)+entmax(1.5)", "relu+gated-rmsnorm"}) {
      for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
        SCOPED_TRACE(positions + " " + attention + " " + at::toString(type));
        Model model = make(positioned(positions, attention), type);
        expect_steps_as_full_passes(model, type);
      }
    }
  }
}

TEST(RelativePositions, LaterTokensChangeNothingBefore) {
  for (const std::string positions : kSchemes) {
    SCOPED_TRACE(positions);
    Model model = make(positioned(positions, "topk(3)"), at::kFloat);
    const torch::NoGradGuard guard;
    at::Tensor tokens = torch::arange(14, at::kLong);
    const at::Tensor offsets = torch::tensor({int64_t{0}, int64_t{14}});
    const at::Tensor before = model->decode({tokens, offsets}, {});
    tokens[9] = 16;
    const at::Tensor after = model->decode({tokens, offsets}, {});
    EXPECT_TRUE(after.slice(0, 0, 9).equal(before.slice(0, 0, 9)));
    EXPECT_FALSE(after[9].equal(before[9]));
  }
}

// Parameters of one model into another that has them, too.
template <class Model>
void copy_parameters(const Model& from, Model& to) {
  const torch::NoGradGuard guard;
  auto target = to->named_parameters();
  for (const auto& item : from->named_parameters()) target[item.key()].copy_(item.value());
}

TEST(RelativePositions, ZeroTablesOfShawAreNoPositions) {
  Model plain = make(positioned("none")), shaw = make(positioned("shaw(4,values)"));
  copy_parameters(plain, shaw);
  const std::vector<std::vector<int64_t>> text = {{1, 2, 3, 4, 5, 6, 7}};
  EXPECT_GT(greatest_difference(last_states(plain, text), last_states(shaw, text)), 1e-3);
  {
    const torch::NoGradGuard guard;
    for (auto& item : shaw->named_parameters())
      if (item.key().find("relative") != std::string::npos) item.value().zero_();
  }
  EXPECT_LT(greatest_difference(last_states(plain, text), last_states(shaw, text)), 1e-12);
}

// With positions that act on scores alone, a sentence's encoder sees its words in both directions.
TEST(RelativePositions, EncodersTellBothDirectionsApart) {
  for (const char* positions : {"shaw(2)", "transformer-xl"}) {
    SCOPED_TRACE(positions);
    ModelConfig config = tiny("full");
    config.transformer_positions = positions;
    Model model = make(config);
    const torch::NoGradGuard guard;
    const at::Tensor offsets = torch::tensor({int64_t{0}, int64_t{3}});
    const at::Tensor one = model->encode({torch::tensor({1, 2, 3}, at::kLong), offsets}, {});
    const at::Tensor other = model->encode({torch::tensor({3, 2, 1}, at::kLong), offsets}, {});
    EXPECT_GT(greatest_difference(one[1], other[1]), 1e-4);
  }
  // ALiBi's slopes are the same in both.
  ModelConfig config = tiny("full");
  config.transformer_positions = "alibi";
  Model model = make(config);
  const torch::NoGradGuard guard;
  const at::Tensor offsets = torch::tensor({int64_t{0}, int64_t{3}});
  const at::Tensor one = model->encode({torch::tensor({1, 2, 3}, at::kLong), offsets}, {});
  EXPECT_LT(greatest_difference(one[1], model->encode({torch::tensor({3, 2, 1}, at::kLong), offsets}, {})[1]), 1e-12);
}

TEST(RelativePositions, NamesOfParametersAreStable) {
  DecoderConfig config = positioned("shaw(4,values)+transformer-xl");
  config.dec_depth = 1;
  std::map<std::string, std::vector<int64_t>> shapes;
  Model model(config, 1);
  for (const auto& item : model->named_parameters()) {
    if (item.key().find("relative") != std::string::npos) shapes[item.key()] = item.value().sizes().vec();
  }
  const std::map<std::string, std::vector<int64_t>> expected = {{"relative.content_bias", {3, 4}},
                                                                {"relative.position_bias", {3, 4}},
                                                                {"layers.0.self_attention.relative.keys", {9, 4}},
                                                                {"layers.0.self_attention.relative.values", {9, 4}},
                                                                {"layers.0.self_attention.relative.weight", {12, 12}}};
  EXPECT_EQ(shapes, expected);
}

}  // namespace
}  // namespace fovea::nn::relative_positions_test
