#include "fovea/ops/reference.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "fovea/kernels/attention/testing/kernel_test_suite.h"

// The reference under the suite that every kernel has to pass: against the oracle, which shares no code with it.
namespace fovea::ops::reference_test {
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
  int64_t heads;

  at::Tensor view(void* data, int64_t token_stride, int64_t head_stride) const {
    const at::ScalarType type = problem.dtype == DType::kFloat64   ? at::kDouble
                                : problem.dtype == DType::kFloat32 ? at::kFloat
                                                                   : at::kBFloat16;
    return at::from_blob(data, {tokens(problem, begin, length), heads, problem.head_dim},
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

Side queries(const AttentionProblem& problem) {
  return {problem, &Sequence::q_begin, &Sequence::q_length, problem.num_heads};
}
Side keys(const AttentionProblem& problem) {
  return {problem, &Sequence::k_begin, &Sequence::k_length, problem.num_key_heads()};
}

// Floats by offset, [tokens, H, count], which the reference reads in its own type.
at::Tensor floats_view(const AttentionProblem& problem, const Rows<const float>& rows, int64_t count) {
  return at::from_blob(const_cast<float*>(rows.data),
                       {tokens(problem, &Sequence::q_begin, &Sequence::q_length), problem.num_heads, count},
                       {rows.token_stride, rows.head_stride, 1}, at::kFloat);
}
void write_floats(const AttentionProblem& problem, const at::Tensor& from, const Rows<float>& rows, int64_t count) {
  const at::Tensor to = floats_view(problem, {rows.data, rows.token_stride, rows.head_stride}, count);
  for (const Sequence& s : problem.sequences) {
    to.narrow(0, s.q_begin, s.q_length).copy_(from.narrow(0, s.q_begin, s.q_length));
  }
}

TermTensors terms_of(const AttentionProblem& problem, const kernels::OffsetTerms& in) {
  const kernels::OffsetRanges& has = problem.offsets;
  const at::ScalarType type = problem.dtype == DType::kFloat64 ? at::kDouble : at::kFloat;
  TermTensors terms;
  if (has.by_head.count > 0) {
    auto* table = const_cast<float*>(in.by_head);
    terms.by_head = at::from_blob(table, {problem.num_heads, has.by_head.count}, at::kFloat).to(type);
  }
  if (has.by_query.count > 0) terms.by_query = floats_view(problem, in.by_query, has.by_query.count).to(type);
  if (has.product.count > 0) {
    terms.queries = queries(problem).read(in.queries);
    const at::Tensor all =
        queries(problem).view(const_cast<void*>(in.rows.data), in.rows.token_stride, in.rows.head_stride);
    // Heads that share rows get gradients apart, as from kernels.
    terms.rows =
        at::from_blob(const_cast<void*>(in.rows.data), {has.product.count, problem.num_heads, problem.head_dim},
                      {in.rows.token_stride, in.rows.head_stride, 1}, all.options())
            .to(type);  // gradients in float, as those of kernels are
  }
  return terms;
}

template <class In>
TokenCall call_of(const AttentionProblem& problem, const In& in) {
  TokenCall call;
  call.problem = problem, call.random = in.random, call.scale = in.scale;
  call.q = queries(problem).read(in.q), call.k = keys(problem).read(in.k), call.v = keys(problem).read(in.v);
  call.terms = terms_of(problem, in.terms);
  if (problem.given.any()) {
    const int64_t heads = problem.list_heads();
    call.given =
        at::from_blob(const_cast<int32_t*>(in.given.data), {call.q.size(0), heads, problem.given.count}, at::kInt);
  }
  if (in.alpha) call.alpha = at::from_blob(const_cast<float*>(in.alpha), {problem.num_heads}, at::kFloat);
  return call;
}

void write_terms(const AttentionProblem& problem, const TermTensors& grads, const kernels::OffsetGradients& to) {
  const kernels::OffsetRanges& has = problem.offsets;
  if (grads.by_head.defined()) {
    at::from_blob(to.by_head, {problem.num_heads, has.by_head.count}, at::kFloat).copy_(grads.by_head);
  }
  if (grads.by_query.defined()) write_floats(problem, grads.by_query, to.by_query, has.by_query.count);
  if (grads.queries.defined()) queries(problem).write(grads.queries, to.queries);
  if (!grads.rows.defined()) return;
  at::from_blob(to.rows, {has.product.count, problem.num_heads, problem.head_dim}, at::kFloat).copy_(grads.rows);
}

void forward(const AttentionProblem& problem, const AttentionForward& in, Executor&) {
  const TokenOutput output = reference_forward(call_of(problem, in));
  queries(problem).write(output.out, in.out);
  if (output.sums.defined()) write_floats(problem, output.sums, in.terms.sums, output.sums.size(2));
}

void backward(const AttentionProblem& problem, const AttentionBackward& in, Executor&) {
  const kernels::OffsetRanges& has = problem.offsets;
  TokenCotangents given{queries(problem).read(in.grad_out), {}};
  const TokenCall call = call_of(problem, in);
  const at::ScalarType type = problem.dtype == DType::kFloat64 ? at::kDouble : at::kFloat;
  if (has.sums.count > 0) given.sums = floats_view(problem, in.grad_terms.sums, has.sums.count).to(type);
  const TokenGradients grads = reference_backward(call, given, {true, true, true, true});
  write_terms(problem, grads.terms, in.grad_terms);
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

// The suite with a budget of few rows, which divides nearly every problem by queries and some by heads.
class ReferenceInBlocks : public Reference {
 protected:
  void SetUp() override {
    Reference::SetUp();
    setenv("FOVEA_REFERENCE_MIB", "0.07", 1);
  }
  void TearDown() override { unsetenv("FOVEA_REFERENCE_MIB"); }
  // A part of the cases: more blocks take more time.
  static suite::Suite some_cases() {
    suite::Suite some = cases();
    some.every *= 4;
    return some;
  }
};

TEST_P(ReferenceInBlocks, AgreesWithTheOracle) { EXPECT_GT(suite::check_against_oracle(some_cases()), 0); }
TEST_P(ReferenceInBlocks, KeepsTies) { EXPECT_GT(suite::check_ties(some_cases()), 0); }
INSTANTIATE_TEST_SUITE_P(Types, ReferenceInBlocks, ::testing::Values(DType::kFloat64, DType::kFloat32),
                         [](const auto& type) { return type.param == DType::kFloat64 ? "double" : "float32"; });

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
}  // namespace fovea::ops::reference_test
