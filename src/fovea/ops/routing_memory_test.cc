#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "fovea/base/test_message.h"
#include "fovea/ops/attention.h"
#include "fovea/ops/routing.h"
#include "fovea/ops/test_routing.h"

// routed(c,w,causal) with memory: the queries are the last tokens of each sequence, and all tokens are keys. By
// definition that is the end of attention over all tokens.
namespace fovea::ops::routing_memory_test {
namespace {

// The three sequences of routing_cases(), of 11, 1 and 7 tokens: memory before the queries, no memory, and only memory.
struct MemoryProblem {
  RoutingProblem all;
  std::vector<int64_t> q_offsets = {0, 4, 5, 5}, tokens = {7, 8, 9, 10, 11};
  explicit MemoryProblem(const RoutingCase& which) : all(which) {}
  at::Tensor rows() const { return at::tensor(tokens, at::kLong); }
};

std::vector<RoutingCase> causal_cases() {
  std::vector<RoutingCase> cases;
  for (const RoutingCase& which : routing_cases()) {
    if (which.route().is_causal() && which.keys != "own") cases.push_back(which);
  }
  cases.push_back({"routed(2,100,causal)", "local(100)"});
  cases.push_back({"routed(2,4,causal)+topk(2)+entmax(learned)", "local(4)+topk(2)+entmax(learned)"});
  cases.push_back({"routed(3,2,causal)", "local(2)", AttentionKind::kCausal, "auto", SelfKey::kKeep, true});
  return cases;
}

// The arguments of a call whose queries see memory. Options point at the inputs, so it stays where it is.
struct MemoryCall {
  MemoryCall(const RoutingCase& which, const MemoryProblem& problem)
      : inputs(routing_inputs_of(which, problem.all)),
        options(routing_options(which, problem.all, inputs)),
        q(problem.all.q.index_select(0, problem.rows())) {
    inputs.memory_queries = problem.all.q;
    options.q_offsets = at::tensor(problem.q_offsets, at::kLong);
  }
  MemoryCall(const MemoryCall&) = delete;
  MemoryCall& operator=(const MemoryCall&) = delete;

  RoutingInputs inputs;
  AttentionOptions options;
  at::Tensor q;
};

at::Tensor computed_with_memory(const RoutingCase& which, const MemoryProblem& problem,
                                std::vector<RoutedReport>* reports = nullptr) {
  MemoryCall call(which, problem);
  call.inputs.reports = reports;
  return attention(call.q, problem.all.k, problem.all.v, which.spec, call.options);
}

TEST(RoutingMemory, IsTheEndOfItsDefinition) {
  for (const RoutingCase& which : causal_cases()) {
    SCOPED_TRACE(which.name());
    MemoryProblem problem(which);
    const at::Tensor right = defined_attention(which, problem.all).index_select(0, problem.rows());
    EXPECT_LT(routing_difference(computed_with_memory(which, problem), right), 1e-11);
    problem.all = in_type(problem.all, at::kFloat);
    EXPECT_LT(routing_difference(computed_with_memory(which, problem), right), 3e-5);
  }
}

// Along random directions of the queries, those of memory among them, and of v, by central differences of the
// definition.
TEST(RoutingMemory, GradientsAreThoseOfItsDefinition) {
  for (const RoutingCase& which : causal_cases()) {
    SCOPED_TRACE(which.name());
    MemoryProblem problem(which);
    problem.all.q.requires_grad_();
    problem.all.v.requires_grad_();
    const at::Tensor cotangent = routing_noise({5, kHeads, kWidth}, 9);
    (computed_with_memory(which, problem) * cotangent).sum().backward();
    uint64_t seed = 10;
    for (at::Tensor RoutingProblem::*input : {&RoutingProblem::q, &RoutingProblem::v}) {
      const at::Tensor direction = routing_noise({19, kHeads, kWidth}, ++seed);
      constexpr double kStep = 1e-6;
      const auto loss_at = [&](double step) {
        RoutingProblem moved(which);
        (moved.*input).add_(direction, step);
        return (defined_attention(which, moved).index_select(0, problem.rows()) * cotangent).sum().item<double>();
      };
      const double difference = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
      const double own = ((problem.all.*input).grad() * direction).sum().item<double>();
      EXPECT_NEAR(own, difference, 1e-7 * (10 + std::abs(difference))) << "input at seed " << seed;
    }
  }
}

TEST(RoutingMemory, ReportsCountQueriesAlone) {
  const RoutingCase which{"routed(3,4,causal)", "local(4)"};
  const MemoryProblem problem(which);
  std::vector<RoutedReport> reports, expected;
  computed_with_memory(which, problem, &reports);
  RoutingInputs inputs = routing_inputs_of(which, problem.all);
  inputs.reports = &expected;
  AttentionOptions options = routing_options(which, problem.all, inputs);
  options.q_offsets = options.k_offsets = at::tensor(problem.q_offsets, at::kLong);
  const at::Tensor q = problem.all.q.index_select(0, problem.rows());
  attention(q, q, q, which.spec, options);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].rows, 5 * kHeads);
  EXPECT_EQ(reports[0].in_none, 0);
  ASSERT_EQ(reports[0].sides.size(), 1U);
  EXPECT_TRUE(reports[0].sides[0].counts.equal(expected.at(0).sides.at(0).counts));
  EXPECT_TRUE(reports[0].sides[0].sums.equal(expected[0].sides[0].sums));
  EXPECT_EQ(reports[0].sides[0].distance.item<double>(), expected[0].sides[0].distance.item<double>());
}

// Keys of their own need no queries of memory: the queries are the last tokens of the keys, and see those before.
TEST(RoutingMemory, OwnKeysOfMemoryAreTheEndOfTheirDefinition) {
  for (const RoutingCase& which : routing_cases()) {
    if (!which.route().is_causal() || which.keys != "own") continue;
    SCOPED_TRACE(which.name());
    MemoryProblem problem(which);
    for (at::Tensor* x : {&problem.all.q, &problem.all.k, &problem.all.v}) x->requires_grad_();
    const at::Tensor cotangent = routing_noise({5, kHeads, kWidth}, 9);
    MemoryCall call(which, problem);
    call.inputs.memory_queries = at::Tensor();
    std::vector<RoutedReport> reports;
    call.inputs.reports = &reports;
    const at::Tensor out = attention(call.q, problem.all.k, problem.all.v, which.spec, call.options);
    const at::Tensor right = defined_attention(which, problem.all).index_select(0, problem.rows());
    EXPECT_LT(routing_difference(out, right), 1e-11);
    // Each of the five tokens of the queries counts once on each side, in each head; those of memory do not.
    ASSERT_EQ(reports.at(0).sides.size(), 2U);
    for (const RoutedSide& side : reports[0].sides) EXPECT_EQ(side.counts.sum().item<double>(), 5 * kHeads);
    (out * cotangent).sum().backward();
    const at::Tensor direction = routing_noise({19, kHeads, kWidth}, 11);
    constexpr double kStep = 1e-6;
    for (at::Tensor RoutingProblem::*input : {&RoutingProblem::q, &RoutingProblem::k, &RoutingProblem::v}) {
      const auto loss_at = [&](double step) {
        RoutingProblem moved(which);
        (moved.*input).add_(direction, step);
        return (defined_attention(which, moved).index_select(0, problem.rows()) * cotangent).sum().item<double>();
      };
      const double difference = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
      EXPECT_NEAR(((problem.all.*input).grad() * direction).sum().item<double>(), difference,
                  1e-7 * (10 + std::abs(difference)));
    }
  }
}

TEST(RoutingMemory, WeightsTimesValuesAreTheOutputs) {
  const RoutingCase which{"routed(2,4,causal)+topk(3)", "local(4)+topk(3)"};
  const MemoryProblem problem(which);
  const MemoryCall call(which, problem);
  const at::Tensor first = attention_weights(call.q, problem.all.k, which.spec, call.options)[0];  // [H, 4, 11]
  const at::Tensor out = at::matmul(first, problem.all.v.narrow(0, 0, 11).transpose(0, 1)).transpose(0, 1);
  EXPECT_LT(routing_difference(out, computed_with_memory(which, problem).narrow(0, 0, 4)), 1e-11);
}

TEST(RoutingMemory, Refusals) {
  const RoutingCase which{"routed(3,4,causal)", "local(4)"};
  const MemoryProblem problem(which);
  MemoryCall call(which, problem);
  const auto run = [&](const std::string& spec) {
    return message_of([&] { attention(call.q, problem.all.k, problem.all.v, spec, call.options); });
  };
  EXPECT_EQ(run("routed(3,4)+topk(2)"),
            "attention 'routed(3,4)+topk(2)': its clusters choose among the queries alone, so they have no memory; use "
            "routed(3,4,causal)");
  call.inputs.memory_queries = problem.all.q.narrow(0, 0, 18);
  EXPECT_EQ(
      run("routed(3,4,causal)"),
      "attention: queries of memory are Double [18, 2, 6]; expected Double [19, heads with centroids, 6], packed, "
      "for k of shape [19, 2, 6]");
  call.inputs.memory_queries = problem.all.q;
  call.options.q_offsets = at::tensor({0, 4, 5, 13}, at::kLong);
  EXPECT_EQ(message_of([&] {
              attention(problem.all.q.narrow(0, 0, 13), problem.all.k, problem.all.v, "routed(3,4,causal)",
                        call.options);
            }),
            "attention: got 8 queries and 7 keys in a sequence with memory; expected at least as many keys, of which "
            "the last are the queries");
}

}  // namespace
}  // namespace fovea::ops::routing_memory_test
