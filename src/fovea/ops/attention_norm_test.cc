#include "fovea/ops/attention_norm.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/kernels/attention/testing/oracle.h"
#include "fovea/ops/head_norm.h"
#include "fovea/spec/attention_names.h"

namespace fovea::ops::attention_norm_test {
namespace {

constexpr int64_t kTokens = 4, kHeads = 3, kHeadDim = 5, kWidth = kHeads * kHeadDim;
using Values = std::vector<double>;

at::Tensor drawn(Rng& rng, std::vector<int64_t> shape) {
  at::Tensor out = at::empty(shape, at::kDouble);
  for (int64_t i = 0; i < out.numel(); ++i) out.mutable_data_ptr<double>()[i] = rng.normal();
  return out.to(at::kFloat).to(at::kDouble);  // the same number in both types
}

Values values_of(const at::Tensor& x) {
  const at::Tensor wide = x.detach().to(at::kDouble).contiguous();
  return {wide.const_data_ptr<double>(), wide.const_data_ptr<double>() + wide.numel()};
}

// The values of one token.
Values row_of(const at::Tensor& x, int64_t token) { return values_of(x[token]); }

void expect_near(const Values& got, const Values& right, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), right.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], right[i], tolerance) << what << " element " << i;
}

// In double the composition of ATen's operators, in float32 the kernel.
void compare_with_oracle(const Norm& norm, at::ScalarType type, double tolerance) {
  const std::string name = std::string(name_of(norm)) + (type == at::kDouble ? " in double" : " in float32");
  const NormParts parts = parts_of(norm);
  Rng rng(3);
  const auto leaf = [&](std::vector<int64_t> shape) { return drawn(rng, std::move(shape)).to(type).requires_grad_(); };
  const at::Tensor z = leaf({kTokens, kHeads, kHeadDim}), gain = leaf({kWidth}), gate = leaf({kWidth}),
                   bias = leaf({kWidth}), grad = drawn(rng, {kTokens, kHeads, kHeadDim}).to(type);
  const auto where = [](bool has, const at::Tensor& x) { return has ? std::optional(x) : std::nullopt; };
  const std::optional<at::Tensor> given_gain = where(parts.gain, gain), given_gate = where(parts.gate, gate),
                                  given_bias = where(parts.bias, bias);
  const at::Tensor y = norm_over_heads(norm, z, {given_gain, given_gate, given_bias});
  y.backward(grad);

  Values grad_gain(kWidth), grad_gate(kWidth), grad_bias(kWidth);
  for (int64_t t = 0; t < kTokens; ++t) {
    const std::string what = name + " token " + std::to_string(t);
    const kernels::OracleNormInput in{norm, row_of(z, t), values_of(gain), values_of(gate), values_of(bias)};
    expect_near(row_of(y, t), kernels::oracle_norm(in), tolerance, what);
    const kernels::OracleNormGradients g = kernels::oracle_norm_backward(in, row_of(grad, t));
    expect_near(row_of(z.grad(), t), g.z, tolerance, what + " z");
    // The struct names exactly the parts for which the definition has gradients.
    ASSERT_EQ(!g.gain.empty(), parts.gain) << what;
    ASSERT_EQ(!g.gate.empty(), parts.gate) << what;
    ASSERT_EQ(!g.bias.empty(), parts.bias) << what;
    for (size_t i = 0; i < static_cast<size_t>(kWidth); ++i) {
      if (parts.gain) grad_gain[i] += g.gain[i];
      if (parts.gate) grad_gate[i] += g.gate[i];
      if (parts.bias) grad_bias[i] += g.bias[i];
    }
  }
  if (parts.gain) expect_near(values_of(gain.grad()), grad_gain, tolerance, name + " gain");
  if (parts.gate) expect_near(values_of(gate.grad()), grad_gate, tolerance, name + " gate");
  if (parts.bias) expect_near(values_of(bias.grad()), grad_bias, tolerance, name + " bias");
}

// Sums of a few dozen terms of size one to ten.
TEST(AttentionNorm, EveryNormIsTheOracles) {
  for_each_type<Norm>([](const auto& norm) {
    compare_with_oracle(norm, at::kDouble, 1e-12);
    compare_with_oracle(norm, at::kFloat, 2e-5);
  });
}

// Whatever parts a norm has: the kernel, and what it is composed of.
TEST(AttentionNorm, EveryCombinationOfPartsIsTheComposition) {
  Rng rng(4);
  const at::Tensor z = drawn(rng, {kTokens, kWidth}), gain = drawn(rng, {kWidth}), gate = drawn(rng, {kWidth}),
                   bias = drawn(rng, {kWidth});
  for (int parts = 0; parts < 8; ++parts) {
    const auto inputs = [&](at::ScalarType type) {
      HeadNormInputs in{z.to(type), gain.to(type), {}, {}, (parts & 1) != 0};
      if ((parts & 2) != 0) in.gate = gate.to(type);
      if ((parts & 4) != 0) in.bias = bias.to(type);
      return in;
    };
    expect_near(values_of(head_norm(inputs(at::kFloat), 1e-8)),
                values_of(composed_head_norm(inputs(at::kDouble), 1e-8)), 2e-5, "parts " + std::to_string(parts));
  }
}

}  // namespace
}  // namespace fovea::ops::attention_norm_test
