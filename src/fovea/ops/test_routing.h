#pragma once
// Routed attention by its definition, in double, and the cases it is tested in.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/attention/dropout.h"
#include "fovea/kernels/attention/testing/oracle.h"
#include "fovea/ops/attention.h"
#include "fovea/ops/routing.h"

namespace fovea::ops {

using Vector = std::vector<double>;

inline constexpr int64_t kHeads = 2, kWidth = 6;

inline at::Tensor routing_noise(std::vector<int64_t> shape, uint64_t seed) {
  Rng rng(seed);
  at::Tensor out = at::empty(shape, at::kDouble);
  for (int64_t i = 0; i < out.numel(); ++i) out.mutable_data_ptr<double>()[i] = rng.normal();
  return out.to(at::kFloat).to(at::kDouble);  // the same number in both types
}

// One routed mechanism, and the mechanism that its definition has within a cluster.
struct RoutingCase {
  std::string spec, within;  // of a cluster: a spec without a route
  AttentionKind kind = AttentionKind::kCausal;
  std::string keys = "auto";
  SelfKey self = SelfKey::kKeep;
  bool scaled = false;

  Routed route() const { return *parse_attention(spec).route(); }
  // Keys of their own in a decoder, or with causal: a query sees the members of its cluster up to itself.
  bool limited() const {
    return keys == "own" && kind != AttentionKind::kCross && (kind == AttentionKind::kCausal || route().is_causal());
  }
  bool shared() const { return keys == "shared" || (keys == "auto" && kind == AttentionKind::kCausal); }
  std::string name() const { return cat(spec, " ", name_of(kind), " ", keys, " ", static_cast<int>(self)); }
};

inline std::vector<RoutingCase> routing_cases() {
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
  for (const std::string stage : {"", "+topk(2)", "+relu", "+topk(2)+entmax(learned)"}) {
    for (const std::string route : {"routed(3,4)", "routed(3,4,causal)", "routed(9,1)", "routed(3,4,random)"})
      all.push_back({route + stage, "full" + stage, kCausal, "own"});
    all.push_back({"routed(2,3,causal)" + stage, "full" + stage, kSelf, "own"});
  }
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

inline AttentionOptions routing_options(const RoutingCase& which, const RoutingProblem& problem,
                                        const RoutingInputs& inputs) {
  AttentionOptions options;
  options.kind = which.kind;
  options.q_offsets = at::tensor(problem.q_offsets, at::kLong);
  options.k_offsets = at::tensor(problem.k_offsets, at::kLong);
  if (which.spec.find("learned") != std::string::npos) options.alpha = problem.alpha;
  options.seed = 5, options.layer = 3;
  options.routing = &inputs;
  return options;
}

inline RoutingInputs routing_inputs_of(const RoutingCase& which, const RoutingProblem& problem) {
  RoutingInputs inputs;
  if (which.route().has_centroids()) inputs.centroids = problem.centroids;
  inputs.keys = which.keys, inputs.self = which.self, inputs.scaled = which.scaled;
  return inputs;
}

// --- The definition, in double, token by token ---

inline double dot(const Vector& a, const Vector& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

inline Vector row_of(const at::Tensor& x, int64_t token, int64_t head) {
  const at::Tensor row = x[token][head].contiguous();
  return {row.const_data_ptr<double>(), row.const_data_ptr<double>() + kWidth};
}

inline Vector normalised(const Vector& x) {
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  double square = 0;
  for (const double value : x) square += (value - mean) * (value - mean);
  Vector out;
  for (const double value : x) out.push_back((value - mean) / std::sqrt(square / static_cast<double>(x.size()) + 1e-6));
  return out;
}

// The members of every cluster among vectors, by their places.
inline std::vector<std::vector<size_t>> defined_members(const std::vector<Vector>& vectors,
                                                        const std::vector<Vector>& means, const Routed& route,
                                                        uint64_t stream) {
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
// The keys of a limited query, from its cluster's in their order.
inline std::vector<size_t> defined_seen(const std::vector<size_t>& members, size_t query, const Routed& route) {
  std::vector<size_t> seen;
  for (const size_t key : members)
    if (key <= query) seen.push_back(key);
  if (route.is_causal() && std::ssize(seen) > route.window) seen.erase(seen.begin(), seen.end() - route.window);
  return seen;
}

inline std::vector<Vector> defined_head(const RoutingCase& which, const DefinedHead& in, double alpha) {
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
    if (which.limited()) {
      for (const size_t query : queries[c]) {
        kernels::OracleInput one = cluster;
        one.kind = AttentionKind::kCross, one.num_queries = 1;
        one.q = q[query], one.k.clear(), one.v.clear();
        const std::vector<size_t> seen = defined_seen(keys[c], query, route);
        for (const size_t key : seen) add(one.k, k[key]), add(one.v, in.v[key]);
        one.num_keys = std::ssize(seen);
        count[query] += 1;
        if (seen.empty()) continue;
        const Vector mixed = kernels::oracle_forward(one).out;
        for (size_t i = 0; i < static_cast<size_t>(kWidth); ++i) out[query][i] += mixed[i];
      }
      continue;
    }
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

inline at::Tensor defined_attention(const RoutingCase& which, const RoutingProblem& in) {
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

inline double routing_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

inline at::Tensor computed(const RoutingCase& which, const RoutingProblem& in) {
  const RoutingInputs inputs = routing_inputs_of(which, in);
  return attention(in.q, in.k, in.v, which.spec, routing_options(which, in, inputs));
}

inline RoutingProblem in_type(RoutingProblem problem, at::ScalarType type) {
  for (at::Tensor* x : {&problem.q, &problem.k, &problem.v}) *x = x->to(type);
  return problem;
}

}  // namespace fovea::ops
