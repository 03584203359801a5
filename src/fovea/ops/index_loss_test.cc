#include "fovea/ops/index_loss.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <array>
#include <limits>

#include "fovea/base/test_message.h"
#include "fovea/kernels/layer/levels_test.h"
#include "fovea/ops/step_test.h"

namespace fovea::ops::index_loss_test {
namespace {

using kernels::testing::at_every_level;
using testing::normal;
using testing::Tensors;
using testing::within_autocast;

struct Problem {
  at::Tensor q, k, weights, indices, target;
};

// Keys without repetition, in random order, about a fifth of the places empty.
at::Tensor random_choice(int64_t batch, int64_t queries, int64_t keys, int64_t count) {
  const at::Tensor order = normal({batch, queries, keys}, 7).argsort(int64_t{-1}, false).narrow(-1, 0, count);
  return order.masked_fill(normal({batch, queries, count}, 8) < -0.8, -1).to(at::kInt).contiguous();
}

Problem problem(int64_t batch, int64_t queries, int64_t keys, int64_t heads, int64_t width, int64_t count) {
  Problem p{normal({batch, queries, heads, width}, 1), normal({batch, keys, width}, 2),
            normal({batch, queries, heads}, 3), random_choice(batch, queries, keys, count),
            normal({batch, queries, count}, 4).abs()};
  p.indices[0][0].fill_(-1);
  p.target[batch - 1][queries - 1].zero_();
  return p;
}

// The sum of the losses from their definition, in double, dense.
at::Tensor definition(const Problem& p) {
  const at::Tensor dots = at::einsum("bshd,btd->bsht", {p.q, p.k}).relu();
  const at::Tensor scores = (dots * p.weights.unsqueeze(-1)).sum(2);
  const at::Tensor missing = p.indices < 0;
  const at::Tensor own = scores.gather(2, p.indices.clamp_min(0).to(at::kLong));
  const at::Tensor target = p.target.masked_fill(missing, 0), total = target.sum(-1, true);
  const at::Tensor wanted = target / total.clamp_min(1e-30);
  const at::Tensor log_weights = own.masked_fill(missing, -1e30).log_softmax(-1);
  return (at::xlogy(wanted, wanted) - wanted * log_weights.masked_fill(missing, 0)).sum();
}

TEST(IndexLossOperator, IsItsDefinitionWithItsGradients) {
  for (const auto& [batch, queries, keys, heads, width, count] : {std::array<int64_t, 6>{2, 9, 23, 3, 5, 7},
                                                                  {1, 290, 400, 4, 64, 96},
                                                                  {1, 3, 5, 1, 1, 1},
                                                                  {2, 20, 65, 17, 33, 65}}) {
    Problem p = problem(batch, queries, keys, heads, width, count);
    Problem leaves = p;
    for (at::Tensor* x : {&leaves.q, &leaves.k, &leaves.weights})
      *x = x->to(at::kFloat).to(at::kDouble).requires_grad_();
    const at::Tensor loss = definition(leaves);
    loss.backward();
    at_every_level([&] {
      const IndexLossSums sums =
          index_loss(p.q.to(at::kFloat), p.k.to(at::kFloat), p.weights.to(at::kFloat), p.indices, p.target, true);
      EXPECT_NEAR(sums.loss.item<double>(), loss.item<double>(), 1e-5 * loss.item<double>() + 1e-6);
      EXPECT_EQ(sums.queries.item<double>(), p.target.masked_fill(p.indices < 0, 0).sum(-1).gt(0).sum().item<double>());
      for (const auto& [ours, leaf] :
           {std::pair(sums.q, leaves.q), {sums.k, leaves.k}, {sums.weights, leaves.weights}}) {
        const double most = leaf.grad().abs().max().item<double>();
        EXPECT_LE((ours - leaf.grad()).abs().max().item<double>(), 2e-5 * most + 1e-6);
      }
    });
  }
}

TEST(IndexLossOperator, DoesNotDependOnThreadsOrTheOrderOfKeys) {
  const Problem p = problem(1, 700, 500, 3, 20, 40);
  const auto run = [&](const at::Tensor& indices, const at::Tensor& target) {
    return index_loss(p.q.to(at::kFloat), p.k.to(at::kFloat), p.weights.to(at::kFloat), indices, target, true);
  };
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const IndexLossSums alone = run(p.indices, p.target), turned = run(p.indices.flip(2), p.target.flip(2));
  at::set_num_threads(3);
  const IndexLossSums together = run(p.indices, p.target);
  at::set_num_threads(threads);
  for (const auto part : {&IndexLossSums::loss, &IndexLossSums::q, &IndexLossSums::k, &IndexLossSums::weights}) {
    EXPECT_TRUE(at::equal(alone.*part, together.*part));
    EXPECT_TRUE(at::allclose(alone.*part, turned.*part, 1e-4, 1e-5));
  }
}

at::Tensor target_definition(const at::Tensor& q, const at::Tensor& k, const at::Tensor& indices, double scale) {
  const at::Tensor keys = k.repeat_interleave(q.size(1) / k.size(1), 1);
  const at::Tensor missing = (indices < 0).unsqueeze(1);
  const at::Tensor list = indices.clamp_min(0).to(at::kLong).unsqueeze(1).expand({-1, q.size(1), -1, -1});
  const at::Tensor scores = (at::matmul(q, keys.transpose(2, 3)) * scale).gather(3, list);
  const at::Tensor weights = scores.masked_fill(missing, -std::numeric_limits<double>::infinity()).softmax(-1);
  return weights.masked_fill(missing, 0).mean(1);
}

TEST(IndexTargetOperator, IsTheMeanOfTheHeads) {
  const at::Tensor q = normal({2, 6, 41, 21}, 1), k = normal({2, 2, 90, 21}, 2), indices = random_choice(2, 41, 90, 30);
  indices[1][3].fill_(-1);
  for (const auto type : {at::kFloat, at::kDouble}) {
    const at::Tensor want = target_definition(q.to(type).to(at::kDouble), k.to(type).to(at::kDouble), indices, 0.25);
    at_every_level([&] {
      const at::Tensor out = index_target(q.to(type), k.to(type), indices, 0.25);
      EXPECT_EQ(out.scalar_type(), type);
      EXPECT_TRUE(at::allclose(out.to(at::kDouble), want, 1e-5, 1e-7));
    });
  }
}

TEST(IndexTargetOperator, IsZeroWithoutKeysAndForEmptyLists) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const auto& [keys, count] : {std::pair{0, 3}, {4, 0}}) {
      const at::Tensor indices = at::full({1, 2, count}, -1, at::kInt);
      const at::Tensor out =
          index_target(normal({1, 2, 2, 4}, 1).to(type), normal({1, 1, keys, 4}, 2).to(type), indices, {});
      EXPECT_EQ(out.sizes(), indices.sizes());
      EXPECT_FALSE(out.any().item<bool>());
    }
  }
}

TEST(IndexTargetOperator, WithinAutocastIsTheOneOutside) {
  const at::Tensor q = normal({2, 6, 41, 21}, 1), k = normal({2, 2, 90, 21}, 2), indices = random_choice(2, 41, 90, 30);
  for (const auto type : {at::kHalf, at::kFloat, at::kDouble}) {
    const auto run = [&] { return index_target(q.to(type), k.to(type), indices, 0.25); };
    EXPECT_TRUE(at::equal(within_autocast(run), run())) << type;
  }
}

TEST(IndexLossOperator, RefusesWhatDoesNotFit) {
  const Problem p = problem(2, 3, 5, 2, 4, 3);
  const at::Tensor q = p.q.to(at::kFloat), k = p.k.to(at::kFloat), weights = p.weights.to(at::kFloat);
  EXPECT_EQ(message_of([&] { index_loss(q, k, weights, p.indices, p.target[0], true); }),
            "index_loss: got q [2, 3, 2, 4], k [2, 5, 4], weights [2, 3, 2], indices [2, 3, 3] and target [3, 3]; "
            "expected [B, S, H, D], [B, T, D], [B, S, H] and twice [B, S, n]");
  EXPECT_EQ(message_of([&] {
              index_loss(q, k, weights, at::full({2, 3, 3}, 5, at::kInt), p.target, true);
            }),
            "index_loss: indices lie in [5, 5]; expected -1 or keys below 5");
  EXPECT_EQ(message_of([&] { index_loss(p.q, p.k, p.weights, p.indices, p.target, true); }),
            "index_loss: q is Double on cpu and k Double on cpu; expected float32 or bfloat16 on the CPU");
}

}  // namespace
}  // namespace fovea::ops::index_loss_test
