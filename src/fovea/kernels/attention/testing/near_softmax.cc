#include <gtest/gtest.h>

#include <cmath>

#include "fovea/base/strings.h"
#include "fovea/kernels/attention/testing/cases.h"
#include "fovea/kernels/attention/testing/compare.h"
#include "fovea/kernels/attention/testing/kernel_test_suite.h"

namespace fovea::kernels::testing_suite {
namespace {

constexpr float kAlphas[] = {1.2F, 1.01F, 1.001F, 1.0001F};

std::vector<Case> cases_of(const Suite& suite) {
  std::vector<Case> out;
  for (const char* spec : {"entmax(learned)", "topk(8)+entmax(learned)", "window(5)+entmax(learned)"}) {
    for (const AttentionKind kind : {AttentionKind::kSelf, AttentionKind::kCausal}) {
      Case c{static_cast<int>(out.size()), {}, Layout::kPacked, Layout::kPacked, 5};
      AttentionProblem& p = c.problem;
      p.spec = parse_attention(spec);
      p.kind = kind;
      p.dtype = suite.dtype;
      p.num_heads = std::size(kAlphas);
      p.head_dim = 33;
      p.needs_backward = true;
      p.sequences = {{0, 33, 0, 33}, {33, 300, 33, 300}};
      if (suite.kernel->refuses(p).empty()) out.push_back(std::move(c));
    }
  }
  return out;
}

// The magnitude of what alpha's gradient sums near 1, where dp / dalpha goes to p (sum p L^2 - L^2) / 2, L = log p;
// the terms of the textbook form are greater by 1 / (alpha - 1)^2.
double alpha_reach(const OracleOutput& truth, const std::vector<double>& grad_out, const OracleInput& in) {
  const auto n = static_cast<size_t>(in.num_keys), width = static_cast<size_t>(in.head_dim);
  double reach = 0;
  for (size_t query = 0; query < static_cast<size_t>(in.num_queries); ++query) {
    double square = 0, greatest = 0;
    for (size_t key = 0; key < n; ++key) {
      const double p = truth.weights[query * n + key], log_p = p > 0 ? std::log(p) : 0;
      square += p * log_p * log_p;
      if (p > 0) greatest = std::max(greatest, std::abs(truth.scores[query * n + key]));
    }
    for (size_t key = 0; key < n; ++key) {
      const double p = truth.weights[query * n + key], log_p = p > 0 ? std::log(p) : 0;
      double grad = 0;
      for (size_t i = 0; i < width; ++i) grad += std::abs(grad_out[query * width + i] * in.v[key * width + i]);
      reach += grad * p * (square + log_p * log_p + 1) * (1 + greatest);
    }
  }
  return reach;
}

}  // namespace

int check_near_softmax(const Suite& suite) {
  int ran = 0;
  for (const Case& c : cases_of(suite)) {
    Inputs inputs = draw_inputs(c, {}, c.seed);
    inputs.alpha.assign(std::begin(kAlphas), std::end(kAlphas));
    std::vector<Truth> truths;
    for (size_t s = 0; s < c.problem.sequences.size(); ++s) {
      for (int64_t h = 0; h < c.problem.num_heads; ++h) {
        const OracleInput head = one_head(c.problem, inputs, s, h);
        const HeadCotangents grad = cotangents_of(c.problem, inputs, s, h);
        const OracleOutput output = oracle_forward(head);
        OracleGradients g = oracle_backward(head, output, grad.out);
        const HeadValues right = {output.out, std::move(g.q), std::move(g.k), std::move(g.v), g.alpha};
        HeadValues reach = magnitudes(head, output, grad);
        reach.alpha = alpha_reach(output, grad.out, head);
        truths.push_back({right, right, std::move(reach)});  // no allowance for a naive version
      }
    }
    SerialExecutor serial;
    const Results got = run_kernel(*suite.kernel, c.problem, inputs, c.outputs, serial);
    EXPECT_EQ(compare_all(c, got, truths), "") << suite.kernel->name << ": " << describe(c.problem);
    ++ran;
  }
  return ran;
}

}  // namespace fovea::kernels::testing_suite
