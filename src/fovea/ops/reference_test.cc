#include "fovea/ops/reference.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fovea/kernels/attention/testing/kernel_test_suite.h"

// The reference under the suite that every kernel has to pass: against the oracle, which shares no code with it.
namespace fovea::ops {
namespace {

using kernels::AttentionBackward;
using kernels::AttentionForward;
using kernels::AttentionProblem;
using kernels::DType;
using kernels::Rows;
using kernels::Sequence;
namespace suite = kernels::testing_suite;

// Tokens of the rows that sequences name.
int64_t tokens(const AttentionProblem& problem, int64_t Sequence::*begin, int64_t Sequence::*length) {
  int64_t end = 0;
  for (const Sequence& s : problem.sequences) end = std::max(end, s.*begin + s.*length);
  return end;
}

struct Side {
  const AttentionProblem& problem;
  int64_t Sequence::*begin;
  int64_t Sequence::*length;

  at::Tensor view(void* data, int64_t token_stride, int64_t head_stride) const {
    const at::ScalarType type = problem.dtype == DType::kFloat64   ? at::kDouble
                                : problem.dtype == DType::kFloat32 ? at::kFloat
                                                                   : at::kBFloat16;
    return at::from_blob(data, {tokens(problem, begin, length), problem.num_heads, problem.head_dim},
                         {token_stride, head_stride, 1}, type);
  }
  at::Tensor read(const Rows<const void>& rows) const {
    return view(const_cast<void*>(rows.data), rows.token_stride, rows.head_stride);
  }
  void write(const at::Tensor& from, const Rows<void>& rows) const {
    const at::Tensor to = view(rows.data, rows.token_stride, rows.head_stride);
    for (const Sequence& s : problem.sequences) {
      to.narrow(0, s.*begin, s.*length).copy_(from.narrow(0, s.*begin, s.*length));
    }
  }
};

Side queries(const AttentionProblem& problem) { return {problem, &Sequence::q_begin, &Sequence::q_length}; }
Side keys(const AttentionProblem& problem) { return {problem, &Sequence::k_begin, &Sequence::k_length}; }

template <class In>
TokenCall call_of(const AttentionProblem& problem, const In& in) {
  TokenCall call;
  call.problem = problem, call.random = in.random, call.scale = in.scale;
  call.q = queries(problem).read(in.q), call.k = keys(problem).read(in.k), call.v = keys(problem).read(in.v);
  if (in.alpha) call.alpha = at::from_blob(const_cast<float*>(in.alpha), {problem.num_heads}, at::kFloat);
  return call;
}

void forward(const AttentionProblem& problem, const AttentionForward& in, Executor&) {
  queries(problem).write(reference_forward(call_of(problem, in)), in.out);
}

void backward(const AttentionProblem& problem, const AttentionBackward& in, Executor&) {
  const TokenGradients grads = reference_backward(call_of(problem, in), queries(problem).read(in.grad_out));
  queries(problem).write(grads.q, in.grad_q);
  keys(problem).write(grads.k, in.grad_k);
  keys(problem).write(grads.v, in.grad_v);
  if (in.grad_alpha && grads.alpha.defined()) {
    std::copy_n(grads.alpha.const_data_ptr<float>(), problem.num_heads, in.grad_alpha);
  }
}

const kernels::Kernel kReference = {
    "reference",
    "attention on ATen",
    [](const AttentionProblem&) { return std::vector<std::string>(); },
    [](const AttentionProblem&) { return kernels::SavedPerRow{}; },
    forward,
    backward,
};

class Reference : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override { at::set_num_threads(1); }  // the problems are small
  // All in double; the other types take the same code, so a part of the cases.
  static suite::Suite cases() {
    suite::Suite cases{&kReference, GetParam()};
    if (GetParam() == DType::kFloat64) return cases;
    cases.every = 5;
    cases.first = GetParam() == DType::kFloat32 ? 1 : 3;
    return cases;
  }
};

TEST_P(Reference, AgreesWithTheOracle) { EXPECT_GT(suite::check_against_oracle(cases()), 0); }
TEST_P(Reference, KeepsTies) { EXPECT_GT(suite::check_ties(cases()), 0); }
TEST_P(Reference, TakesHugeAndTiny) { EXPECT_GT(suite::check_huge_and_tiny(cases()), 0); }
INSTANTIATE_TEST_SUITE_P(Types, Reference, ::testing::Values(DType::kFloat64, DType::kFloat32, DType::kBFloat16),
                         [](const auto& type) {
                           return type.param == DType::kFloat64   ? "double"
                                  : type.param == DType::kFloat32 ? "float32"
                                                                  : "bfloat16";
                         });

// Products over padded groups mix rows, so bits may differ between a sequence alone and in a batch; values that are
// not finite must stay in their sequence all the same. In double the rest differs by less than its rounding.
TEST(ReferenceRows, LetNotFiniteThrough) {
  at::set_num_threads(1);
  suite::Suite cases{&kReference, DType::kFloat64};
  cases.every = 3;
  cases.zero_weights_spoil = true;
  EXPECT_GT(suite::check_not_finite(cases), 0);
}

}  // namespace
}  // namespace fovea::ops
