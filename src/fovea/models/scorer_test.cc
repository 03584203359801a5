#include "fovea/models/scorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>

#include "fovea/base/test_message.h"

namespace fovea::models::scorer_test {
namespace {

using testing::HasSubstr;

// An output layer with equal logits for every token: its target has probability 1/2, 1/4, 1/4 or 0.
struct OutputLayer {
  ops::OutputLayer output_layer() const {
    const float half = std::log(0.5F), quarter = std::log(0.25F), none = -std::numeric_limits<float>::infinity();
    return {.weight = torch::zeros({4, 1}), .bias = torch::tensor({half, quarter, quarter, none})};
  }
};

struct GivenTokens {
  OutputLayer layer;
  at::Tensor targets = torch::tensor({0, 1, 2, 3}, at::kLong);
  at::Tensor hidden = torch::zeros({4, 1});
};

TEST(Scorer, SumsTokensInTheirOrder) {
  const GivenTokens given;
  const TokenScorer scorer(&given.layer, given.hidden, given.targets);
  EXPECT_NEAR(scorer.nll(0), std::log(2.0), 1e-6);  // of float32 numbers near 1
  EXPECT_TRUE(scorer.is_best(0));
  EXPECT_FALSE(scorer.is_best(1));
  const GivenScore sum = scorer.sum(0, 3);
  EXPECT_EQ(sum.nll, static_cast<double>(scorer.nll(0)) + scorer.nll(1) + scorer.nll(2));
  EXPECT_EQ(sum.tokens, 3);
  EXPECT_EQ(sum.correct, 1);
  GivenScore parts = scorer.sum(0, 1);
  parts += scorer.sum(1, 3);
  EXPECT_EQ(parts, sum);
  GivenScore whole;
  whole.add(&given.layer, given.hidden.narrow(0, 0, 3), given.targets.narrow(0, 0, 3));
  EXPECT_NEAR(whole.mean_nll(), std::log(2.0) * 5 / 3, 1e-6);
  EXPECT_DOUBLE_EQ(whole.accuracy(), 1.0 / 3);
  EXPECT_TRUE(std::isnan(GivenScore().mean_nll()) && std::isnan(GivenScore().accuracy()));
}

TEST(Scorer, RefusesScoresThatAreNotFinite) {
  const GivenTokens given;
  const TokenScorer scorer(&given.layer, given.hidden, given.targets);
  EXPECT_THAT(message_of([&] { scorer.sum(2, 4); }), HasSubstr("diverged in training"));
}

TEST(Scorer, PacksSentencesBehindEachOther) {
  const Sentence first = {5, 6}, second = {}, third = {7};
  const std::vector<const Sentence*> sentences = {&first, &second, &third};
  const PackedSentences packed = pack(sentences, at::kCPU);
  EXPECT_TRUE(packed.tokens.equal(torch::tensor({5, 6, 7}, at::kLong)));
  EXPECT_TRUE(packed.offsets.equal(torch::tensor({0, 2, 2, 3}, at::kLong)));
}

}  // namespace
}  // namespace fovea::models::scorer_test
