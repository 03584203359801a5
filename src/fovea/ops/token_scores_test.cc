#include "fovea/ops/step.h"
#include "fovea/ops/step_test.h"

namespace fovea::ops::token_scores_test {
namespace {

using testing::normal;
using testing::words;

TEST(TokenScores, AreNllAndWhetherTheTargetHasTheGreatestLogit) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const at::Tensor hidden = normal({150, 24}, 1).to(type), weight = normal({700, 24}, 2).to(type),
                     bias = normal({700}, 3).to(type);
    const auto wide = [](const at::Tensor& x) { return x.to(at::kDouble); };
    const at::Tensor logits = at::linear(wide(hidden), wide(weight), wide(bias)), first = logits.argmax(1);
    at::Tensor targets = words(150, 700, 4);
    targets.slice(0, 0, 75).copy_(first.slice(0, 0, 75));
    const TokenScores scores = token_scores(hidden, {weight, bias}, targets);
    const double sum = cross_entropy(hidden, {weight, bias}, targets, 0).nll.item<double>();
    EXPECT_NEAR(scores.nll.sum(at::kDouble).item<double>(), sum, 1e-6 * sum) << type;  // rounding to float32, at most
    EXPECT_EQ(scores.best.scalar_type(), at::kBool);
    // Logits closer together than their rounding (of sums of some tens, in bfloat16 after products in float32 or, where
    // PyTorch computes, rounded to 2^-9 of themselves) may change places.
    const at::Tensor two = std::get<0>(logits.topk(2, 1)), apart = two.select(1, 0) - two.select(1, 1) > 1e-3;
    EXPECT_GT(apart.sum().item<int64_t>(), 140);
    EXPECT_TRUE(at::equal(scores.best.masked_select(apart), (targets == first).masked_select(apart))) << type;
  }
}

TEST(TokenScores, OfATokenDoNotDependOnTheOthers) {
  const at::Tensor hidden = normal({300, 16}, 1).to(at::kFloat), weight = normal({90, 16}, 2).to(at::kFloat);
  const at::Tensor targets = words(300, 90, 4);
  const TokenScores all = token_scores(hidden, {weight}, targets);
  for (const int64_t t : {0, 127, 299}) {
    const TokenScores one = token_scores(hidden.slice(0, t, t + 1), {weight}, targets.slice(0, t, t + 1));
    EXPECT_TRUE(at::equal(one.nll, all.nll.slice(0, t, t + 1)) && at::equal(one.best, all.best.slice(0, t, t + 1)));
  }
}

// Ties count, and what is not a number never does: with and without a kernel.
TEST(TokenScores, CountTiesAndNoNumberThatIsNone) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    at::Tensor hidden = at::ones({2, 1}, type), weight = at::zeros({5, 1}, type);
    const at::Tensor targets = at::full({2}, 3, at::kLong);
    EXPECT_TRUE(token_scores(hidden, {weight}, targets).best.all().item<bool>());
    weight[1][0] = 1;
    EXPECT_FALSE(token_scores(hidden, {weight}, targets).best.any().item<bool>());
    weight[3][0] = 2, hidden[1][0] = std::nan("");
    const at::Tensor best = token_scores(hidden, {weight}, targets).best;
    EXPECT_TRUE(best[0].item<bool>());
    EXPECT_FALSE(best[1].item<bool>());
  }
}

}  // namespace
}  // namespace fovea::ops::token_scores_test
