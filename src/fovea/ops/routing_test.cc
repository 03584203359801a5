#include "fovea/ops/routing.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"
#include "fovea/ops/attention.h"
#include "fovea/ops/test_routing.h"

namespace fovea::ops::routing_test {
namespace {

TEST(Routing, IsItsDefinition) {
  for (const RoutingCase& which : routing_cases()) {
    SCOPED_TRACE(which.name());
    const RoutingProblem problem(which);
    const at::Tensor right = defined_attention(which, problem);
    // Sums of some ten products of numbers near one; scores reach 10 without the scale, and exp multiplies their error.
    EXPECT_LT(routing_difference(computed(which, problem), right), 1e-11);
    EXPECT_LT(routing_difference(computed(which, in_type(problem, at::kFloat)), right), 3e-5);
  }
}

// bfloat16 keeps 8 bits of each number of the vectors, so scores of norm 6 are off by 0.05.
TEST(Routing, OtherTypesAreRoundings) {
  const RoutingCase causal{"routed(3,4,causal)", "local(4)", AttentionKind::kCausal, "auto", SelfKey::kKeep, true};
  const RoutingCase best{"routed(2,100)", "full", AttentionKind::kSelf, "auto", SelfKey::kKeep, true};
  for (const RoutingCase& which : {causal, best}) {
    const RoutingProblem problem(which);
    const at::Tensor right = defined_attention(which, problem);
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf})
      EXPECT_LT(routing_difference(computed(which, in_type(problem, type)), right), 0.1) << which.name() << type;
  }
}

// Along random directions of q, k and v, by central differences of the definition. Its members do not change in such a
// step.
TEST(Routing, GradientsAreThoseOfItsDefinition) {
  for (const RoutingCase& which : routing_cases()) {
    SCOPED_TRACE(which.name());
    RoutingProblem problem(which);
    for (at::Tensor* x : {&problem.q, &problem.k, &problem.v}) x->requires_grad_();
    const at::Tensor cotangent = routing_noise({problem.q.size(0), kHeads, kWidth}, 9);
    (computed(which, problem) * cotangent).sum().backward();
    uint64_t seed = 10;
    for (at::Tensor RoutingProblem::*input : {&RoutingProblem::q, &RoutingProblem::k, &RoutingProblem::v}) {
      const at::Tensor& grad = (problem.*input).grad();
      for (int draw = 0; draw < 3; ++draw) {
        const at::Tensor direction = routing_noise((problem.*input).sizes().vec(), ++seed);
        constexpr double kStep = 1e-6;
        const auto loss_at = [&](double step) {
          RoutingProblem moved(which);
          (moved.*input).add_(direction, step);
          return (defined_attention(which, moved) * cotangent).sum().item<double>();
        };
        const double difference = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
        const double own = grad.defined() ? (grad * direction).sum().item<double>() : 0;
        // Noise of 1e-16 * 100 / step, and a bias of the order of step^2 times the third derivative.
        EXPECT_NEAR(own, difference, 1e-7 * (10 + std::abs(difference))) << "input at seed " << seed;
      }
    }
  }
}

TEST(Routing, OneClusterOfEverythingIsFullAttentionOnNormalisedQueriesAndKeys) {
  const int64_t length = 40;
  for (const AttentionKind kind : {AttentionKind::kSelf, AttentionKind::kCausal}) {
    const at::Tensor q = routing_noise({length, kHeads, kWidth}, 1), v = routing_noise({length, kHeads, kWidth}, 2);
    const at::Tensor x = at::layer_norm(q, {kWidth}, {}, {}, 1e-6);
    RoutingInputs inputs;
    inputs.keys = "shared";
    inputs.centroids = routing_noise({kHeads, 1, kWidth}, 3);
    AttentionOptions options;
    options.kind = kind;
    options.routing = &inputs;
    const at::Tensor routed = attention(q, q, v, cat("routed(1,", length, ")"), options);
    AttentionOptions plain;
    plain.kind = kind, plain.scale = 1;
    const at::Tensor full = attention(x, x, v, "full", plain);
    EXPECT_LT(routing_difference(routed * 1.01, full), 1e-12);
    if (kind == AttentionKind::kCausal) {
      EXPECT_LT(routing_difference(attention(q, q, v, cat("routed(1,", length, ",causal)"), options), full), 1e-12);
    }
  }
}

// A longer text, where tasks are cut in many pieces.
struct LongRouting {
  at::Tensor q = routing_noise({900, kHeads, 16}, 1).to(at::kFloat),
             v = routing_noise({900, kHeads, 16}, 2).to(at::kFloat),
             centroids = at::layer_norm(routing_noise({kHeads, 5, 16}, 3), {16}).to(at::kFloat);
  std::string keys = "auto";
  std::vector<at::Tensor> run(const std::string& spec, const std::vector<int64_t>& offsets) const {
    RoutingInputs inputs;
    inputs.centroids = centroids;
    inputs.keys = keys;
    std::vector<RoutedReport> reports;
    inputs.reports = &reports;
    AttentionOptions options;
    options.kind = AttentionKind::kCausal;
    options.q_offsets = at::tensor(offsets, at::kLong);
    options.routing = &inputs;
    const at::Tensor x = q.narrow(0, 0, offsets.back()).detach().requires_grad_();
    const at::Tensor values = v.narrow(0, 0, offsets.back()).detach().requires_grad_();
    const at::Tensor out = attention(x, x, values, spec, options);
    const RoutedSide& side = reports.at(0).sides.at(0);
    (out.square().sum() + side.distance).backward();
    return {out.detach(), x.grad(), values.grad(), side.counts, side.sums, side.distance.detach()};
  }
};

TEST(Routing, ThreadsChangeNoBit) {
  LongRouting problem;
  const int threads = at::get_num_threads();
  for (const char* keys : {"shared", "own"}) {
    problem.keys = keys;
    for (const char* spec : {"routed(5,200)", "routed(5,60,causal)+topk(4)", "routed(5,200)+entmax(1.5)"}) {
      at::set_num_threads(1);
      const auto alone = problem.run(spec, {0, 400, 900});
      at::set_num_threads(3);
      const auto together = problem.run(spec, {0, 400, 900});
      at::set_num_threads(threads);
      for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(alone[i].equal(together[i])) << spec << " result " << i;
    }
  }
}

TEST(Routing, OtherSequencesChangeNoBit) {
  LongRouting problem;
  for (const char* keys : {"shared", "own"}) {
    problem.keys = keys;
    for (const char* spec : {"routed(5,200)", "routed(5,60,causal)"}) {
      const auto alone = problem.run(spec, {0, 400}), together = problem.run(spec, {0, 400, 401, 900});
      EXPECT_TRUE(alone[0].equal(together[0].narrow(0, 0, 400))) << spec << keys;
    }
  }
}

// Strictly causal: an output is the same whatever comes later. The published form lets the future choose members.
TEST(Routing, TheFutureMovesNothingBeforeIfCausal) {
  LongRouting problem;
  const auto run = [&](const char* spec, const char* keys = "shared") {
    problem.keys = keys;
    return problem.run(spec, {0, 900})[0].narrow(0, 0, 500);
  };
  const at::Tensor causal = run("routed(5,60,causal)"), best = run("routed(5,60)"),
                   own = run("routed(5,60,causal)", "own");
  problem.q.narrow(0, 500, 400).copy_(routing_noise({400, kHeads, 16}, 8));
  EXPECT_TRUE(run("routed(5,60,causal)").equal(causal));
  EXPECT_TRUE(run("routed(5,60,causal)", "own").equal(own));
  const double moved = routing_difference(run("routed(5,60)"), best);
  EXPECT_GT(moved, 0.1);
  RecordProperty("largest change of an earlier output, routed(5,60)", std::to_string(moved));
}

// A query that sees others gives its own key no weight, so its own value cannot spoil it.
TEST(Routing, AnOwnValueOfLastResortReachesNobodyElse) {
  const at::Tensor x = routing_noise({19, kHeads, kWidth}, 1).to(at::kFloat);
  const at::Tensor v = routing_noise({19, kHeads, kWidth}, 2).to(at::kFloat);
  RoutingInputs inputs;
  inputs.centroids = routing_noise({kHeads, 2, kWidth}, 3).to(at::kFloat);
  inputs.self = SelfKey::kLast;
  AttentionOptions options;
  options.kind = AttentionKind::kCausal;
  options.routing = &inputs;
  const auto with_last = [&](double value) {
    at::Tensor changed = v.clone();
    changed[18].fill_(value);
    return attention(x, x, changed, "routed(2,19,causal)", options);
  };
  const at::Tensor clean = with_last(1);
  ASSERT_TRUE(at::equal(with_last(2), clean));  // the last token is not alone in its clusters
  EXPECT_TRUE(at::equal(with_last(std::numeric_limits<float>::infinity()), clean));
}

TEST(Routing, ReportsCountTokensAndClusters) {
  const RoutingCase which{"routed(3,4)", "full", AttentionKind::kSelf};
  const RoutingProblem problem(which);
  RoutingInputs inputs = routing_inputs_of(which, problem);
  std::vector<RoutedReport> reports;
  inputs.reports = &reports;
  attention(problem.q, problem.k, problem.v, which.spec, routing_options(which, problem, inputs));
  ASSERT_EQ(reports.size(), 1U);
  ASSERT_EQ(reports[0].sides.size(), 2U);  // queries, and keys of their own
  double none = 0, several = 0;
  at::Tensor counts = at::zeros({kHeads, 3}, at::kDouble), sums = at::zeros({kHeads, 3, kWidth}, at::kDouble);
  double distance = 0;
  for (int64_t h = 0; h < kHeads; ++h) {
    std::vector<Vector> means;
    for (int64_t c = 0; c < 3; ++c) means.push_back(row_of(problem.centroids, h, c));
    for (size_t b = 0; b + 1 < problem.q_offsets.size(); ++b) {
      std::vector<Vector> vectors;
      for (int64_t t = problem.q_offsets[b]; t < problem.q_offsets[b + 1]; ++t)
        vectors.push_back(normalised(row_of(problem.q, t, h)));
      std::vector<int> clusters(vectors.size());
      for (const auto& list : defined_members(vectors, means, which.route(), 0))
        for (const size_t i : list) ++clusters[i];
      none += static_cast<double>(std::ranges::count(clusters, 0));
      several += static_cast<double>(std::ranges::count_if(clusters, [](int n) { return n > 1; }));
      for (const Vector& x : vectors) {
        size_t best = 0;
        for (size_t c = 1; c < 3; ++c)
          if (dot(x, means[c]) > dot(x, means[best])) best = c;
        const auto cluster = static_cast<int64_t>(best);
        counts[h][cluster] += 1;
        for (int64_t i = 0; i < kWidth; ++i) {
          const auto at = static_cast<size_t>(i);
          sums[h][cluster][i] += x[at];
          distance += (x[at] - means[best][at]) * (x[at] - means[best][at]);
        }
      }
    }
  }
  EXPECT_EQ(reports[0].rows, 19 * kHeads);
  EXPECT_EQ(reports[0].in_none, none);
  EXPECT_EQ(reports[0].in_several, several);
  EXPECT_GT(several, 0);
  const RoutedSide& side = reports[0].sides[0];
  EXPECT_TRUE(side.counts.to(at::kDouble).equal(counts));
  EXPECT_LT(routing_difference(side.sums, sums), 1e-12);
  EXPECT_NEAR(side.distance.item<double>(), distance / (19 * kHeads * kWidth), 1e-12);
}

TEST(Routing, TheDistanceHasItsGradient) {
  RoutingProblem problem({"routed(3,4)", "full"});
  const at::Tensor x = problem.q.detach().requires_grad_();
  RoutingInputs inputs;
  inputs.centroids = problem.centroids;
  const auto distance = [&](const at::Tensor& q) {
    std::vector<RoutedReport> reports;
    inputs.reports = &reports;
    AttentionOptions options;
    options.kind = AttentionKind::kCausal;
    options.routing = &inputs;
    attention(q, q, q, "routed(3,4)", options);
    return reports[0].sides[0].distance;
  };
  distance(x).backward();
  const at::Tensor direction = routing_noise({19, kHeads, kWidth}, 7);
  constexpr double kStep = 1e-6;
  const double difference =
      (distance(problem.q + kStep * direction) - distance(problem.q - kStep * direction)).item<double>() / (2 * kStep);
  EXPECT_NEAR((x.grad() * direction).sum().item<double>(), difference, 1e-8);
}

// Dense tensors: padding joins no cluster and gets zeros.
TEST(Routing, DenseBatchesAreTheirPackedSequences) {
  const RoutingCase which{"routed(3,4)", "full"};
  const RoutingProblem problem(which);
  const RoutingInputs inputs = routing_inputs_of(which, problem);
  const at::Tensor right = computed(which, problem);
  const auto padded = [&](const at::Tensor& x) {
    at::Tensor out = routing_noise({3, kHeads, 11, kWidth}, 6);
    for (int64_t b = 0; b < 3; ++b) {
      const int64_t first = problem.q_offsets[static_cast<size_t>(b)],
                    length = problem.q_offsets[static_cast<size_t>(b) + 1] - first;
      out[b].narrow(1, 0, length).copy_(x.narrow(0, first, length).transpose(0, 1));
    }
    return out;
  };
  AttentionOptions options;
  options.kind = AttentionKind::kCausal;
  options.routing = &inputs;
  options.q_lengths = at::tensor({11, 1, 7}, at::kLong);
  options.seed = 5, options.layer = 3;
  const at::Tensor out = attention(padded(problem.q), padded(problem.k), padded(problem.v), which.spec, options);
  for (int64_t b = 0; b < 3; ++b) {
    const int64_t first = problem.q_offsets[static_cast<size_t>(b)],
                  length = problem.q_offsets[static_cast<size_t>(b) + 1] - first;
    EXPECT_TRUE(out[b].narrow(1, 0, length).transpose(0, 1).equal(right.narrow(0, first, length)));
    EXPECT_EQ(out[b].narrow(1, length, 11 - length).abs().sum().item<double>(), 0);
  }
}

TEST(Routing, WeightsTimesValuesAreTheOutputs) {
  for (const RoutingCase& which : routing_cases()) {
    if (which.self == SelfKey::kLast) continue;  // a last resort has no weight
    SCOPED_TRACE(which.name());
    const RoutingProblem problem(which);
    const RoutingInputs inputs = routing_inputs_of(which, problem);
    const AttentionOptions options = routing_options(which, problem, inputs);
    const at::Tensor weights = attention_weights(problem.q, problem.k, which.spec, options);  // [B, H, N_q, N_k]
    const at::Tensor right = computed(which, problem);
    for (size_t b = 0; b + 1 < problem.q_offsets.size(); ++b) {
      const int64_t q = problem.q_offsets[b], n = problem.q_offsets[b + 1] - q, k = problem.k_offsets[b],
                    m = problem.k_offsets[b + 1] - k;
      const at::Tensor own = weights[static_cast<int64_t>(b)].narrow(1, 0, n).narrow(2, 0, m);
      const at::Tensor out = at::matmul(own, problem.v.narrow(0, k, m).transpose(0, 1)).transpose(0, 1);
      EXPECT_LT(routing_difference(out, right.narrow(0, q, n)), 1e-11);
    }
  }
}

// Groups of one layer read their own centroids, and draw as they would alone.
TEST(Routing, GroupsReadTheirOwnHeads) {
  const at::Tensor x = routing_noise({19, 5, kWidth}, 1), v = routing_noise({19, 5, kWidth}, 2);
  RoutingInputs inputs;
  inputs.centroids = routing_noise({3, 4, kWidth}, 3);
  AttentionOptions options;
  options.kind = AttentionKind::kCausal;
  options.routing = &inputs;
  const at::Tensor all = attention(x, x, v, "1*routed(4,5);1*local(3);2*routed(2,6);1*routed(2,3,random)", options);
  const auto heads = [&](int64_t first, int64_t count, const std::string& spec, int64_t centroids, int64_t clusters) {
    RoutingInputs own;
    if (clusters > 0) own.centroids = inputs.centroids.narrow(0, centroids, count).narrow(1, 0, clusters);
    AttentionOptions alone = options;
    alone.routing = &own;
    const auto part = [&](const at::Tensor& t) { return t.narrow(1, first, count); };
    return attention(part(x), part(x), part(v), spec, alone);
  };
  EXPECT_TRUE(all.narrow(1, 0, 1).equal(heads(0, 1, "routed(4,5)", 0, 4)));
  EXPECT_TRUE(all.narrow(1, 1, 1).equal(heads(1, 1, "local(3)", 0, 0)));
  EXPECT_TRUE(all.narrow(1, 2, 2).equal(heads(2, 2, "routed(2,6)", 1, 2)));
  EXPECT_FALSE(all.narrow(1, 4, 1).equal(heads(4, 1, "routed(2,3,random)", 0, 0)));  // another head's draw
}

TEST(Routing, NoTokens) {
  RoutingInputs inputs;
  inputs.centroids = routing_noise({kHeads, 3, kWidth}, 3);
  AttentionOptions options;
  options.kind = AttentionKind::kCausal;
  options.q_offsets = at::tensor({0, 0}, at::kLong);
  options.routing = &inputs;
  const at::Tensor none = at::empty({0, kHeads, kWidth}, at::kDouble);
  for (const char* spec : {"routed(3,4)", "routed(3,4,causal)", "routed(3,4,random)"})
    EXPECT_EQ(attention(none, none, none, spec, options).numel(), 0);
}

TEST(Routing, Refusals) {
  const RoutingCase which{"routed(3,4)", "full"};
  const RoutingProblem problem(which);
  RoutingInputs inputs = routing_inputs_of(which, problem);
  AttentionOptions options = routing_options(which, problem, inputs);
  const auto run = [&](const std::string& spec) {
    return message_of([&] { attention(problem.q, problem.k, problem.v, spec, options); });
  };
  EXPECT_EQ(run("routed(4,4)"),
            "attention: routed(4,4) needs centroids of 2 heads and 4 clusters, which models learn; got [2, 3, 6]");
  options.routing = nullptr;
  EXPECT_EQ(run("routed(3,4)"),
            "attention: routed(3,4) needs centroids of 2 heads and 3 clusters, which models learn; got none");
  EXPECT_EQ(run("routed(3,4,random)"), "nothing was thrown");
  options.routing = &inputs;
  inputs.keys = "own";
  options.k_offsets = at::tensor({0, 12, 13, 19}, at::kLong);
  for (const char* spec : {"routed(3,4)", "routed(3,4,random)"})
    EXPECT_EQ(run(spec), cat("attention '", spec,
                             "': got 11 queries and 12 keys in a sequence; expected as many of each, "
                             "or of routed(c,w,causal) more keys, of which the last are the queries'"));
  options.k_offsets = at::tensor({0, 10, 11, 19}, at::kLong);
  EXPECT_NE(run("routed(3,4,causal)").find("got 11 queries and 10 keys"), std::string::npos);
  options.k_offsets = options.q_offsets;
  inputs.keys = "shared";
  options.kind = AttentionKind::kSelf;
  options.q_offsets = at::tensor({0, 19}, at::kLong);
  options.k_offsets = at::tensor({0, 18}, at::kLong);
  EXPECT_EQ(message_of([&] {
              attention(problem.q, problem.k.narrow(0, 0, 18), problem.v.narrow(0, 0, 18), "routed(3,4)", options);
            }),
            "attention: routed with keys that are the queries got 19 queries and 18 keys in a sequence; expected the "
            "same tokens");
}

}  // namespace
}  // namespace fovea::ops::routing_test
