#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fovea/base/executor.h"
#include "fovea/base/rng.h"
#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/dropout.h"

// Attention by a naive loop in double, which the tests of cpu-rows compare with.
namespace fovea::kernels::rows_naive {

struct Case {
  std::string spec;
  AttentionKind kind = AttentionKind::kSelf;
  int64_t heads = 2, dim = 5;
  std::vector<std::pair<int64_t, int64_t>> lengths = {{7, 7}, {1, 1}, {19, 19}};
  float dropout = 0;
};

struct Data {
  AttentionProblem problem;
  RandomStream random{.seed = 3, .dropout_key = 77, .layer = 1, .first_head = 2};
  std::vector<float> q, k, v, alpha;
  int64_t tokens_q = 0, tokens_k = 0;
  float scale = 0.7F;
};

inline Data make(const Case& c) {
  Data data;
  data.problem.spec = parse_attention(c.spec);
  data.problem.kind = c.kind;
  data.problem.num_heads = c.heads;
  data.problem.head_dim = c.dim;
  data.problem.needs_backward = true;
  data.problem.dropout = c.dropout;
  for (const auto& [queries, keys] : c.lengths) {
    data.problem.sequences.push_back({data.tokens_q, queries, data.tokens_k, keys});
    data.tokens_q += queries;
    data.tokens_k += keys;
  }
  Rng rng(5);
  const auto fill = [&](std::vector<float>& to, int64_t tokens) {
    for (int64_t i = 0; i < tokens * c.heads * c.dim; ++i) to.push_back(static_cast<float>(rng.normal()));
  };
  fill(data.q, data.tokens_q);
  fill(data.k, data.tokens_k);
  fill(data.v, data.tokens_k);
  for (int64_t h = 0; h < c.heads; ++h) data.alpha.push_back(1.3F + 0.25F * static_cast<float>(h));
  return data;
}

using Doubles = std::vector<double>;

inline void entmax_row(Doubles& s, double alpha) {
  double top = -1e300;
  for (double x : s) top = std::max(top, (alpha - 1) * x);
  double low = top - 1, high = top;
  const auto weight = [&](double x, double tau) {
    return std::pow(std::max((alpha - 1) * x - tau, 0.0), 1 / (alpha - 1));
  };
  for (int i = 0; i < 200; ++i) {
    const double tau = (low + high) / 2;
    double sum = 0;
    for (double x : s) sum += weight(x, tau);
    (sum >= 1 ? low : high) = tau;
  }
  for (double& x : s) x = weight(x, low);
}

inline void transform_row(Doubles& s, const Transform& transform, double learned) {
  if (std::holds_alternative<Softmax>(transform)) {
    const double top = *std::max_element(s.begin(), s.end());
    double sum = 0;
    for (double& x : s) sum += x = std::exp(x - top);
    for (double& x : s) x /= sum;
  } else if (std::holds_alternative<Sparsemax>(transform)) {
    entmax_row(s, 2);
  } else if (const auto* entmax = std::get_if<Entmax>(&transform)) {
    entmax_row(s, entmax->learned ? learned : entmax->alpha);
  } else if (std::holds_alternative<Relu>(transform)) {
    for (double& x : s) x = std::max(x, 0.0);
  } else if (std::holds_alternative<Gelu>(transform)) {
    for (double& x : s) x *= 0.5 * std::erfc(-x / std::sqrt(2.0));
  } else if (const auto* sigmoid = std::get_if<Sigmoid>(&transform)) {
    for (double& x : s) x = 1 / (1 + std::exp(-(x + sigmoid->bias)));
  } else {
    const double slope = std::get<LeakyRelu>(transform).negative;
    for (double& x : s) x = x > 0 ? x : slope * x;
  }
}

struct NaiveInputs {
  const Doubles &q, &k, &v, &alpha;
};

// Keys of one query under one head, and their scores, then weights.
struct NaiveRow {
  std::vector<int64_t> keys;
  Doubles values;
};

// The candidates and scores of the query at `at` in q.
inline NaiveRow naive_scores(const Data& data, const NaiveInputs& in, const Sequence& sequence, const Row& row,
                             int64_t at) {
  const AttentionProblem& problem = data.problem;
  const int64_t heads = problem.num_heads, d = problem.head_dim, h = at / d % heads;
  NaiveRow out;
  for (int64_t j = 0; j < sequence.k_length; ++j) {
    if (!contains(problem.spec.pairs(), row, j)) continue;
    double s = 0;
    for (int64_t x = 0; x < d; ++x) {
      s += in.q[static_cast<size_t>(at + x)] * in.k[static_cast<size_t>(((sequence.k_begin + j) * heads + h) * d + x)];
    }
    out.keys.push_back(j);
    out.values.push_back(s * static_cast<double>(data.scale));
  }
  return out;
}

// The scores that the selection leaves.
inline NaiveRow naive_select(const AttentionSpec& spec, const Row& row, const NaiveRow& scores) {
  const auto kept = [&](size_t c) { return spec.keep && contains(*spec.keep, row, scores.keys[c]); };
  Doubles others;
  for (size_t c = 0; c < scores.keys.size(); ++c) {
    if (!kept(c)) others.push_back(scores.values[c]);
  }
  std::sort(others.rbegin(), others.rend());
  const double threshold =
      others.empty()
          ? -1e300
          : std::visit([&](const auto& s) { return s.threshold(std::span<const double>(others)); }, spec.selection);
  NaiveRow left;
  for (size_t c = 0; c < scores.keys.size(); ++c) {
    if (!kept(c) && scores.values[c] < threshold) continue;
    left.keys.push_back(scores.keys[c]);
    left.values.push_back(scores.values[c]);
  }
  return left;
}

inline void naive_dropout(const Data& data, int64_t head, int64_t token, NaiveRow& weights) {
  const AttentionProblem& problem = data.problem;
  if (problem.dropout <= 0) return;
  const uint32_t key = dropout_row_key(data.random.dropout_key, data.random.first_head + head, token);
  for (size_t c = 0; c < weights.keys.size(); ++c) {
    const bool keeps = dropout_keeps(key, static_cast<uint32_t>(weights.keys[c]), dropout_threshold(problem.dropout));
    weights.values[c] *= keeps ? static_cast<double>(dropout_scale(problem.dropout)) : 0.0;
  }
}

// Out of every (query, head), in double.
inline Doubles naive(const Data& data, const NaiveInputs& in) {
  const AttentionProblem& problem = data.problem;
  const int64_t heads = problem.num_heads, d = problem.head_dim;
  Doubles out(static_cast<size_t>(data.tokens_q * heads * d));
  for (const Sequence& sequence : problem.sequences) {
    for (int64_t i = 0; i < sequence.q_length * heads; ++i) {
      const int64_t query = i / heads, h = i % heads, token = sequence.q_begin + query, at = (token * heads + h) * d;
      const Row row{
          .query = problem.kind == AttentionKind::kCross ? query : query + sequence.k_length - sequence.q_length,
          .keys = sequence.k_length,
          .causal = problem.kind == AttentionKind::kCausal,
          .stream = pattern_stream(data.random.seed, data.random.layer, data.random.first_head + h)};
      NaiveRow weights = naive_scores(data, in, sequence, row, at);
      if (weights.keys.empty()) continue;
      weights = naive_select(problem.spec, row, weights);
      transform_row(weights.values, problem.spec.transform, in.alpha[static_cast<size_t>(h)]);
      naive_dropout(data, h, token, weights);
      for (size_t c = 0; c < weights.keys.size(); ++c) {
        const int64_t value = ((sequence.k_begin + weights.keys[c]) * heads + h) * d;
        for (int64_t x = 0; x < d; ++x) {
          out[static_cast<size_t>(at + x)] += weights.values[c] * in.v[static_cast<size_t>(value + x)];
        }
      }
    }
  }
  return out;
}

struct Results {
  std::vector<float> out, grad_q, grad_k, grad_v, grad_alpha;
};

inline Rows<const void> in(const std::vector<float>& x, const AttentionProblem& problem) {
  return {x.data(), problem.num_heads * problem.head_dim, problem.head_dim};
}
inline Rows<void> out(std::vector<float>& x, const AttentionProblem& problem) {
  return {x.data(), problem.num_heads * problem.head_dim, problem.head_dim};
}

inline Results compute(const Kernel& kernel, Data& data, const std::vector<float>& grad_out, Executor& executor) {
  const AttentionProblem& p = data.problem;
  Results r;
  const float unset = std::nanf("");
  r.out.assign(data.q.size(), unset);
  r.grad_q.assign(data.q.size(), unset);
  r.grad_k.assign(data.k.size(), unset);
  r.grad_v.assign(data.k.size(), unset);
  r.grad_alpha.assign(data.alpha.size(), 0);
  const SavedPerRow saved = kernel.saved(p);
  std::vector<float> stats(static_cast<size_t>(data.tokens_q * p.num_heads * saved.floats + 1));
  std::vector<int32_t> kept(static_cast<size_t>(data.tokens_q * p.num_heads * saved.ints + 1));
  AttentionForward f;
  f.q = in(data.q, p);
  f.k = in(data.k, p);
  f.v = in(data.v, p);
  f.out = out(r.out, p);
  f.scale = data.scale;
  f.alpha = data.alpha.data();
  f.stats = stats.data();
  f.kept = kept.data();
  f.saved = saved;
  f.random = data.random;
  kernel.forward(p, f, executor);
  AttentionBackward b;
  b.q = f.q;
  b.k = f.k;
  b.v = f.v;
  b.out = in(r.out, p);
  b.grad_out = in(grad_out, p);
  b.grad_q = out(r.grad_q, p);
  b.grad_k = out(r.grad_k, p);
  b.grad_v = out(r.grad_v, p);
  b.scale = data.scale;
  b.alpha = data.alpha.data();
  b.grad_alpha = r.grad_alpha.data();
  b.stats = stats.data();
  b.kept = kept.data();
  b.saved = saved;
  b.random = data.random;
  kernel.backward(p, b, executor);
  return r;
}

inline Doubles wide(const std::vector<float>& x) { return {x.begin(), x.end()}; }

}  // namespace fovea::kernels::rows_naive
