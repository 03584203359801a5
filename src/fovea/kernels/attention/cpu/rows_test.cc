#include "fovea/kernels/attention/cpu/rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/rows_naive_test.h"

// Tests the grouping of queries against a naive loop in double, and gradients against its central differences.
// Mechanisms, shapes and types are the business of kernel_list_test.cc, which runs every kernel.
namespace fovea::kernels::rows_test {
namespace {

using namespace rows_naive;

// d sum(out . grad_out) / dx by central differences, at all of a few elements or at some twelve of many: each asks for
// all of naive() twice.
void expect_gradient(const std::vector<float>& got, Doubles& x, const std::function<double()>& loss,
                     const std::string& what) {
  constexpr double kStep = 1e-5;
  const size_t apart = x.size() > 50 ? (x.size() / 12) | 1 : 1;  // odd, so that both halves of an even head_dim are met
  for (size_t i = 0; i < x.size(); i += apart) {
    const double kept = x[i];
    x[i] = kept + kStep;
    const double up = loss();
    x[i] = kept - kStep;
    const double down = loss();
    x[i] = kept;
    const double want = (up - down) / (2 * kStep);
    // Float sums of up to 19 terms of size a few, against differences that are good to 1e-6.
    ASSERT_NEAR(static_cast<double>(got[i]), want, 3e-5 * std::max(1.0, std::abs(want))) << what << "[" << i << "]";
  }
}

void check(const Kernel& kernel, const Case& c) {
  SCOPED_TRACE(c.spec + " dim " + std::to_string(c.dim) + " on " + std::string(name(isa())));
  Data data = make(c);
  ASSERT_TRUE(kernel.refuses(data.problem).empty());
  std::vector<float> grad_out;
  Rng rng(9);
  for (size_t i = 0; i < data.q.size(); ++i) grad_out.push_back(static_cast<float>(rng.normal()));
  SerialExecutor serial;
  const Results got = compute(kernel, data, grad_out, serial);
  Doubles q = wide(data.q), k = wide(data.k), v = wide(data.v), alpha = wide(data.alpha);
  const Doubles want = naive(data, {q, k, v, alpha});
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(static_cast<double>(got.out[i]), want[i], 2e-5) << i;
  const auto loss = [&] {
    const Doubles now = naive(data, {q, k, v, alpha});
    return std::inner_product(now.begin(), now.end(), grad_out.begin(), 0.0);
  };
  expect_gradient(got.grad_q, q, loss, "grad_q");
  expect_gradient(got.grad_k, k, loss, "grad_k");
  expect_gradient(got.grad_v, v, loss, "grad_v");
  const auto* entmax = std::get_if<Entmax>(&data.problem.spec.transform);
  if (entmax != nullptr && entmax->learned) expect_gradient(got.grad_alpha, alpha, loss, "grad_alpha");
  ThreadExecutor threads(3);
  const Results again = compute(kernel, data, grad_out, threads);
  EXPECT_EQ(again.out, got.out);
  EXPECT_EQ(again.grad_k, got.grad_k);
}

class RowsTest : public LevelTest {};

// The specs need more than one group, groups of residue classes, lists of keys, and parts that are added up.
TEST_P(RowsTest, Groups) {
  for (const char* spec : {"dilated(5,3)", "block(6)", "random(3)", "window(4)|global(2)|random(2)", "strided(4)",
                           "local(3)|strided(5)", "topk(2,keep=dilated(3,4))", "window(9)&dilated(9,2)+relu"}) {
    check(kRowsKernel, {.spec = spec, .heads = 1, .dim = 3, .lengths = {{70, 70}}});
    check(kRowsKernel,
          {.spec = spec, .kind = AttentionKind::kCausal, .lengths = {{20, 31}, {41, 41}}, .dropout = 0.2F});
  }
  check(kRowsKernel, {.spec = "full", .heads = 1, .dim = 2, .lengths = {{740, 720}}});
  check(kRowsKernel, {.spec = "full", .kind = AttentionKind::kCausal, .heads = 1, .dim = 2, .lengths = {{300, 320}}});
}

INSTANTIATE_TEST_SUITE_P(Levels, RowsTest, testing::ValuesIn(runnable_isas()), level_title);

}  // namespace
}  // namespace fovea::kernels::rows_test
