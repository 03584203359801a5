#include "fovea/ops/routing.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"
#include "fovea/kernels/attention/dropout.h"
#include "fovea/kernels/attention/testing/oracle.h"
#include "fovea/ops/attention.h"

namespace fovea::ops {
namespace {

using Vector = std::vector<double>;

constexpr int64_t kHeads = 2, kWidth = 6;

at::Tensor routing_noise(std::vector<int64_t> shape, uint64_t seed) {
  Rng rng(seed);
  at::Tensor out = at::empty(shape, at::kDouble);
  for (int64_t i = 0; i < out.numel(); ++i) out.mutable_data_ptr<double>()[i] = rng.normal();
  return out.to(at::kFloat).to(at::kDouble);  // the same number in both types
}

// One routed mechanism, and what its definition asks of a cluster.
struct RoutingCase {
  std::string spec, within;  // of a cluster: a spec without a route
  AttentionKind kind = AttentionKind::kCausal;
  std::string keys = "auto";
  SelfKey self = SelfKey::kKeep;
  bool scaled = false;

  Routed route() const { return *parse_attention(spec).route; }
  bool shared() const { return keys == "shared" || (keys == "auto" && kind == AttentionKind::kCausal); }
  std::string name() const { return cat(spec, " ", name_of(kind), " ", keys, " ", static_cast<int>(self)); }
};

std::vector<RoutingCase> routing_cases() {
  using enum AttentionKind;
  std::vector<RoutingCase> all;
  for (const AttentionKind kind : {kCausal, kSelf, kCross}) {
    for (const std::string stage :
         {"", "+topk(2)", "+sparsemax", "+entmax(1.5)", "+relu", "+topk(2)+entmax(learned)"}) {
      all.push_back({"routed(3,4)" + stage, "full" + stage, kind});
      all.push_back({"routed(3,4,random)" + stage, "full" + stage, kind});
    }
    all.push_back({"routed(2,100)", "full", kind});  // a window larger than the sequence
    all.push_back({"routed(9,1)", "full", kind});    // more clusters than tokens
    all.push_back({"routed(3,4)", "full", kind, "auto", SelfKey::kKeep, true});
  }
  for (const AttentionKind kind : {kCausal, kSelf}) {
    all.push_back({"routed(3,4)+topk(1,keep=local(2))", "topk(1,keep=local(2))", kind, "shared"});
    all.push_back({"routed(3,4)", "others", kind, "shared", SelfKey::kNever});
    all.push_back({"routed(3,4)", "others", kind, "shared", SelfKey::kLast});
    all.push_back({"routed(3,1)", "others", kind, "shared", SelfKey::kLast});
  }
  for (const std::string stage : {"", "+topk(2)", "+entmax(1.5)"})
    all.push_back({"routed(3,4,causal)" + stage, "local(4)" + stage});
  all.push_back({"routed(3,4,causal)", "local(4)&others", kCausal, "auto", SelfKey::kNever});
  all.push_back({"routed(3,4,causal)", "local(4)&others", kCausal, "auto", SelfKey::kLast});
  all.push_back({"routed(3,1,causal)", "local(1)&others", kCausal, "auto", SelfKey::kLast});
  all.push_back({"routed(3,4,causal)", "local(4)", kSelf, "shared"});
  return all;
}

struct RoutingProblem {
  std::vector<int64_t> q_offsets = {0, 11, 12, 19}, k_offsets;  // a sequence of one token among them
  at::Tensor q, k, v, centroids, alpha;

  explicit RoutingProblem(const RoutingCase& which) {
    k_offsets = which.kind == AttentionKind::kCross ? std::vector<int64_t>{0, 9, 14, 17} : q_offsets;
    q = routing_noise({q_offsets.back(), kHeads, kWidth}, 1);
    k = routing_noise({k_offsets.back(), kHeads, kWidth}, 2);
    v = routing_noise({k_offsets.back(), kHeads, kWidth}, 3);
    centroids = at::layer_norm(routing_noise({kHeads, which.route().clusters, kWidth}, 4), {kWidth});
    alpha = at::tensor({1.3, 1.7}, at::kDouble);
  }
};

AttentionOptions routing_options(const RoutingCase& which, const RoutingProblem& problem, const RoutingInputs& inputs) {
  AttentionOptions options;
  options.kind = which.kind;
  options.q_offsets = at::tensor(problem.q_offsets, at::kLong);
  options.k_offsets = at::tensor(problem.k_offsets, at::kLong);
  if (which.spec.find("learned") != std::string::npos) options.alpha = problem.alpha;
  options.seed = 5, options.layer = 3;
  options.routing = &inputs;
  return options;
}

RoutingInputs routing_inputs_of(const RoutingCase& which, const RoutingProblem& problem) {
  RoutingInputs inputs;
  if (which.route().has_centroids()) inputs.centroids = problem.centroids;
  inputs.keys = which.keys, inputs.self = which.self, inputs.scaled = which.scaled;
  return inputs;
}

// --- The definition, in double, token by token ---

double dot(const Vector& a, const Vector& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

Vector row_of(const at::Tensor& x, int64_t token, int64_t head) {
  const at::Tensor row = x[token][head].contiguous();
  return {row.const_data_ptr<double>(), row.const_data_ptr<double>() + kWidth};
}

Vector normalised(const Vector& x) {
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  double square = 0;
  for (const double value : x) square += (value - mean) * (value - mean);
  Vector out;
  for (const double value : x) out.push_back((value - mean) / std::sqrt(square / static_cast<double>(x.size()) + 1e-6));
  return out;
}

// The members of every cluster among vectors, by their places.
std::vector<std::vector<size_t>> defined_members(const std::vector<Vector>& vectors, const std::vector<Vector>& means,
                                                 const Routed& route, uint64_t stream) {
  const auto clusters = static_cast<size_t>(route.clusters);
  std::vector<std::vector<size_t>> members(clusters);
  for (size_t c = 0; c < clusters; ++c) {
    std::vector<size_t> order(vectors.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto score = [&](size_t i) {
      return route.has_centroids() ? dot(vectors[i], means[c])
                                   : kernels::random_rank(stream, static_cast<int64_t>(c), static_cast<int64_t>(i));
    };
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return score(a) > score(b); });
    order.resize(std::min(order.size(), static_cast<size_t>(route.window)));
    std::ranges::sort(order);
    members[c] = order;
  }
  if (!route.is_causal()) return members;
  for (auto& list : members) list.clear();
  for (size_t i = 0; i < vectors.size(); ++i) {
    size_t best = 0;
    for (size_t c = 1; c < clusters; ++c)
      if (dot(vectors[i], means[c]) > dot(vectors[i], means[best])) best = c;
    members[best].push_back(i);
  }
  return members;
}

// One head of one sequence.
struct DefinedHead {
  std::vector<Vector> q, k, v, means;
  int64_t head = 0;
};
std::vector<Vector> defined_head(const RoutingCase& which, const DefinedHead& in, double alpha) {
  const Routed route = which.route();
  const uint64_t stream = kernels::pattern_stream(5, 3, in.head);
  const auto all_normalised = [](const std::vector<Vector>& rows) {
    std::vector<Vector> out;
    for (const Vector& row : rows) out.push_back(normalised(row));
    return out;
  };
  const std::vector<Vector> q = all_normalised(in.q), k = which.shared() ? q : all_normalised(in.k);
  const auto queries = defined_members(q, in.means, route, stream);
  const auto keys = which.shared() ? queries : defined_members(k, in.means, route, hash_combine(stream, 0x6b657973));
  std::vector<Vector> out(q.size(), Vector(kWidth));
  std::vector<double> count(q.size());
  for (size_t c = 0; c < queries.size(); ++c) {
    kernels::OracleInput cluster;
    cluster.spec = parse_attention(which.within);
    cluster.kind = which.kind;
    cluster.num_queries = std::ssize(queries[c]), cluster.num_keys = std::ssize(keys[c]), cluster.head_dim = kWidth;
    cluster.scale = which.scaled ? 1 / std::sqrt(static_cast<double>(kWidth)) : 1;
    cluster.alpha = alpha;
    const auto add = [](Vector& to, const Vector& row) { to.insert(to.end(), row.begin(), row.end()); };
    for (const size_t i : queries[c]) add(cluster.q, q[i]);
    for (const size_t i : keys[c]) add(cluster.k, k[i]), add(cluster.v, in.v[i]);
    if (queries[c].empty() || keys[c].empty()) {
      for (const size_t i : queries[c]) count[i] += 1;
      continue;
    }
    const kernels::OracleOutput mixed = kernels::oracle_forward(cluster);
    for (size_t r = 0; r < queries[c].size(); ++r) {
      const size_t token = queries[c][r];
      count[token] += 1;
      const double* scores = mixed.scores.data() + r * keys[c].size();
      const bool is_alone = which.self == SelfKey::kLast &&
                            std::none_of(scores, scores + keys[c].size(), [](double s) { return std::isfinite(s); });
      for (size_t i = 0; i < static_cast<size_t>(kWidth); ++i)
        out[token][i] += is_alone ? in.v[token][i] : mixed.out[r * kWidth + i];
    }
  }
  for (size_t t = 0; t < out.size() && !route.is_causal(); ++t)
    for (double& value : out[t]) value /= count[t] + 0.01;
  return out;
}

at::Tensor defined_attention(const RoutingCase& which, const RoutingProblem& in) {
  at::Tensor out = at::zeros(in.q.sizes(), at::kDouble);
  for (int64_t h = 0; h < kHeads; ++h) {
    for (size_t b = 0; b + 1 < in.q_offsets.size(); ++b) {
      DefinedHead head;
      head.head = h;
      for (int64_t t = in.q_offsets[b]; t < in.q_offsets[b + 1]; ++t) head.q.push_back(row_of(in.q, t, h));
      for (int64_t t = in.k_offsets[b]; t < in.k_offsets[b + 1]; ++t) {
        head.k.push_back(row_of(in.k, t, h));
        head.v.push_back(row_of(in.v, t, h));
      }
      for (int64_t c = 0; c < in.centroids.size(1); ++c) head.means.push_back(row_of(in.centroids, h, c));
      const std::vector<Vector> rows = defined_head(which, head, h == 0 ? 1.3 : 1.7);
      for (size_t t = 0; t < rows.size(); ++t)
        std::ranges::copy(rows[t], out[in.q_offsets[b] + static_cast<int64_t>(t)][h].mutable_data_ptr<double>());
    }
  }
  return out;
}

double routing_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

at::Tensor computed(const RoutingCase& which, const RoutingProblem& in) {
  const RoutingInputs inputs = routing_inputs_of(which, in);
  return attention(in.q, in.k, in.v, which.spec, routing_options(which, in, inputs));
}

RoutingProblem in_type(RoutingProblem problem, at::ScalarType type) {
  for (at::Tensor* x : {&problem.q, &problem.k, &problem.v}) *x = x->to(type);
  return problem;
}

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
  std::vector<at::Tensor> run(const std::string& spec, const std::vector<int64_t>& offsets) const {
    RoutingInputs inputs;
    inputs.centroids = centroids;
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
  const LongRouting problem;
  const int threads = at::get_num_threads();
  for (const char* spec : {"routed(5,200)", "routed(5,60,causal)+topk(4)", "routed(5,200)+entmax(1.5)"}) {
    at::set_num_threads(1);
    const auto alone = problem.run(spec, {0, 400, 900});
    at::set_num_threads(3);
    const auto together = problem.run(spec, {0, 400, 900});
    at::set_num_threads(threads);
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(alone[i].equal(together[i])) << spec << " result " << i;
  }
}

TEST(Routing, OtherSequencesChangeNoBit) {
  const LongRouting problem;
  for (const char* spec : {"routed(5,200)", "routed(5,60,causal)"}) {
    const auto alone = problem.run(spec, {0, 400}), together = problem.run(spec, {0, 400, 401, 900});
    EXPECT_TRUE(alone[0].equal(together[0].narrow(0, 0, 400))) << spec;
  }
}

// Strictly causal: an output is the same whatever comes later. The published form lets the future choose members.
TEST(Routing, TheFutureMovesNothingBeforeIfCausal) {
  LongRouting problem;
  const auto run = [&](const char* spec) { return problem.run(spec, {0, 900})[0].narrow(0, 0, 500); };
  const at::Tensor causal = run("routed(5,60,causal)"), best = run("routed(5,60)");
  problem.q.narrow(0, 500, 400).copy_(routing_noise({400, kHeads, 16}, 8));
  EXPECT_TRUE(run("routed(5,60,causal)").equal(causal));
  const double moved = routing_difference(run("routed(5,60)"), best);
  EXPECT_GT(moved, 0.1);
  RecordProperty("largest change of an earlier output, routed(5,60)", std::to_string(moved));
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
  EXPECT_EQ(run("routed(3,4)"),
            "attention: routed with keys of their own has no limit to earlier keys; share the keys");
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
}  // namespace fovea::ops
