#pragma once
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "fovea/base/rng.h"

// Operators against their definition in double: values, gradients, threads.
namespace fovea::ops::testing {

using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

inline at::Tensor normal(at::IntArrayRef shape, uint64_t seed) {
  at::Tensor values = at::empty(shape, at::kDouble);
  Rng rng(seed);
  for (int64_t i = 0; i < values.numel(); ++i) values.data_ptr<double>()[i] = rng.normal();
  return values;
}

inline at::Tensor words(int64_t count, int64_t bound, uint64_t seed) {
  at::Tensor values = at::empty({count}, at::kLong);
  Rng rng(seed);
  for (int64_t i = 0; i < count; ++i) {
    values.data_ptr<int64_t>()[i] = static_cast<int64_t>(rng.below(static_cast<uint64_t>(bound)));
  }
  return values;
}

// Outputs of f, then the gradients of a random combination of them, all in double; the inputs are those of `type`.
inline Tensors evaluate(const Function& f, const Tensors& inputs, at::ScalarType type, at::ScalarType rounding) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.to(rounding).to(type).requires_grad_());
  Tensors results = f(leaves);
  at::Tensor combined = at::zeros({}, at::kDouble);
  for (size_t i = 0; i < results.size(); ++i) {
    const at::Tensor factors = normal(results[i].sizes(), 100 + i).to(rounding).to(at::kDouble);
    combined = combined + (results[i].to(at::kDouble) * factors).sum();
  }
  combined.backward();
  for (const at::Tensor& leaf : leaves) results.push_back(leaf.grad());
  for (at::Tensor& result : results) result = result.detach().to(at::kDouble);
  return results;
}

inline double greatest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0 : (a - b).abs().max().item<double>();
}

// The kernel is to be no further from double arithmetic than twice what PyTorch's own operators of the same type are,
// and eight units in the last place of the greatest number: sums of some hundred terms in another order differ by that.
inline void expect_as_good(const Function& kernel, const Function& composite, const Tensors& inputs) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Tensors truth = evaluate(composite, inputs, at::kDouble, type);
    const Tensors plain = evaluate(composite, inputs, type, type);
    const Tensors ours = evaluate(kernel, inputs, type, type);
    const double unit = type == at::kFloat ? 0x1p-24 : 0x1p-9;
    ASSERT_EQ(ours.size(), truth.size());
    for (size_t i = 0; i < truth.size(); ++i) {
      ASSERT_EQ(ours[i].sizes(), truth[i].sizes());
      const double bound = 2 * greatest_difference(plain[i], truth[i]) + 8 * unit * truth[i].abs().max().item<double>();
      EXPECT_LE(greatest_difference(ours[i], truth[i]), bound)
          << "result " << i << " " << ours[i].sizes() << ", " << type;
    }
  }
}

inline void expect_same_on_all_threads(const Function& f, const Tensors& inputs) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Tensors alone = evaluate(f, inputs, at::kFloat, at::kFloat);
  at::set_num_threads(3);
  const Tensors together = evaluate(f, inputs, at::kFloat, at::kFloat);
  at::set_num_threads(threads);
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(at::equal(alone[i], together[i])) << i;
}

// Returns the value of f in a region of autocast to bfloat16 on the CPU.
inline at::Tensor within_autocast(const std::function<at::Tensor()>& f) {
  struct Region {
    Region() { at::autocast::set_autocast_enabled(at::kCPU, true); }
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;
    ~Region() { at::autocast::set_autocast_enabled(at::kCPU, false); }
  };
  const Region region;
  return f();
}

}  // namespace fovea::ops::testing
