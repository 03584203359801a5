#include "fovea/ops/counter_hash.h"

#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <limits>

#include "fovea/base/rng.h"
#include "fovea/ops/reference_dropout.h"

namespace fovea::ops::counter_hash_test {
namespace {

TEST(CounterHash, IsThatOfNumbers) {
  const at::Tensor seeds =
      at::randint(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), {200}, at::kLong);
  const at::Tensor combined = hash_combine_of(seeds, seeds.flip(0));
  const at::Tensor keys = seeds.bitwise_and(0xffffffffL), hashed = hash32_of(keys, keys.flip(0));
  for (int64_t i = 0; i < 200; ++i) {
    const auto number = [](const at::Tensor& x, int64_t place) {
      return static_cast<uint64_t>(x[place].item<int64_t>());
    };
    EXPECT_EQ(number(combined, i), hash_combine(number(seeds, i), number(seeds, 199 - i)));
    EXPECT_EQ(number(hashed, i),
              hash32(static_cast<uint32_t>(number(keys, i)), static_cast<uint32_t>(number(keys, 199 - i))));
  }
}

// A device draws the dropout of attention that the CPU draws.
TEST(CounterHash, DrawsTheDropoutOfKernels) {
  TokenCall call;
  call.problem.num_heads = 5, call.problem.dropout = 0.3F, call.problem.dtype = kernels::DType::kFloat64;
  call.problem.spec = parse_attention("window(6)");
  call.problem.sequences = {{3, 30, 0, 30}, {33, 30, 30, 30}};
  call.random = {.seed = 1, .dropout_key = 0xfedcba9876543210ULL, .layer = 2, .first_head = 3};
  const auto plan = reference_plan(call.problem, call.random, at::kCPU);
  for (const ReferenceGroup& group : plan->groups) {
    for (const ReferenceBlock& block : group.blocks) {
      const BlockView view{call, group, block};
      EXPECT_TRUE(at::equal(dropout_factors(view, at::kDouble), hashed_dropout_factors(view, at::kDouble)));
    }
  }
}

}  // namespace
}  // namespace fovea::ops::counter_hash_test
