#include "fovea/kernels/attention/cpu/rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <span>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/dropout.h"

// How queries are grouped, against a naive loop in double, gradients against its central differences. Mechanisms,
// shapes and types are the business of kernel_list_test.cc, which runs every kernel.
namespace fovea::kernels {
namespace {

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

Data make(const Case& c) {
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

void entmax_row(Doubles& s, double alpha) {
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

void transform_row(Doubles& s, const Transform& transform, double learned) {
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
  } else {
    const double slope = std::get<LeakyRelu>(transform).slope;
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

// Of the query at `at` in q.
NaiveRow naive_scores(const Data& data, const NaiveInputs& in, const Sequence& sequence, const Row& row, int64_t at) {
  const AttentionProblem& problem = data.problem;
  const int64_t heads = problem.num_heads, d = problem.head_dim, h = at / d % heads;
  NaiveRow out;
  for (int64_t j = 0; j < sequence.k_length; ++j) {
    if (!contains(problem.spec.pairs, row, j)) continue;
    double s = 0;
    for (int64_t x = 0; x < d; ++x) {
      s += in.q[static_cast<size_t>(at + x)] * in.k[static_cast<size_t>(((sequence.k_begin + j) * heads + h) * d + x)];
    }
    out.keys.push_back(j);
    out.values.push_back(s * static_cast<double>(data.scale));
  }
  return out;
}

// What the selection leaves.
NaiveRow naive_select(const TopK& select, const Row& row, const NaiveRow& scores) {
  const auto kept = [&](size_t c) { return select.keep && contains(*select.keep, row, scores.keys[c]); };
  Doubles others;
  for (size_t c = 0; c < scores.keys.size(); ++c) {
    if (!kept(c)) others.push_back(scores.values[c]);
  }
  std::sort(others.rbegin(), others.rend());
  const auto top = static_cast<size_t>(select.k);
  const double threshold = others.size() <= top ? -1e300 : others[top - 1];
  NaiveRow left;
  for (size_t c = 0; c < scores.keys.size(); ++c) {
    if (!kept(c) && scores.values[c] < threshold) continue;
    left.keys.push_back(scores.keys[c]);
    left.values.push_back(scores.values[c]);
  }
  return left;
}

void naive_dropout(const Data& data, int64_t head, int64_t token, NaiveRow& weights) {
  const AttentionProblem& problem = data.problem;
  if (problem.dropout <= 0) return;
  const uint32_t key = dropout_row_key(data.random.dropout_key, data.random.first_head + head, token);
  for (size_t c = 0; c < weights.keys.size(); ++c) {
    const bool keeps = dropout_keeps(key, static_cast<uint32_t>(weights.keys[c]), dropout_threshold(problem.dropout));
    weights.values[c] *= keeps ? static_cast<double>(dropout_scale(problem.dropout)) : 0.0;
  }
}

// Out of every (query, head), in double.
Doubles naive(const Data& data, const NaiveInputs& in) {
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
      if (problem.spec.select) weights = naive_select(*problem.spec.select, row, weights);
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

Rows<const void> in(const std::vector<float>& x, const AttentionProblem& problem) {
  return {x.data(), problem.num_heads * problem.head_dim, problem.head_dim};
}
Rows<void> out(std::vector<float>& x, const AttentionProblem& problem) {
  return {x.data(), problem.num_heads * problem.head_dim, problem.head_dim};
}

Results compute(const Kernel& kernel, Data& data, const std::vector<float>& grad_out, Executor& executor) {
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

Doubles wide(const std::vector<float>& x) { return {x.begin(), x.end()}; }

// d sum(out . grad_out) / dx by central differences, at some four elements.
void expect_gradient(const std::vector<float>& got, Doubles& x, const std::function<double()>& loss,
                     const std::string& what) {
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i<x.size(); i += x.size()> 50 ? 13 : 1) {
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

class RowsTest : public AtLevel {};

// More than one group, groups of residue classes, lists of keys, and parts that are added up.
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

std::vector<float> forward_alone(Data& data, const int64_t* key_tokens, Executor& executor) {
  std::vector<float> result(data.q.size(), std::nanf(""));
  AttentionForward f;
  f.q = in(data.q, data.problem), f.k = in(data.k, data.problem), f.v = in(data.v, data.problem);
  f.out = out(result, data.problem), f.key_tokens = key_tokens, f.scale = data.scale, f.random = data.random;
  kRowsKernel.forward(data.problem, f, executor);
  return result;
}

// A step of decoding beside sequences of many queries: whole vectors and parts of them, a row that sees no key, bits
// that do not depend on the neighbours.
TEST_P(RowsTest, FewQueries) {
  for (const AttentionKind kind : {AttentionKind::kSelf, AttentionKind::kCausal, AttentionKind::kCross}) {
    for (const int64_t dim : {5, 16, 33}) {
      Data data = make({.spec = "full",
                        .kind = kind,
                        .heads = 3,
                        .dim = dim,
                        .lengths = {{1, 17}, {8, 8}, {3, 1}, {9, 20}, {1, 1}, {5, 0}}});
      data.problem.needs_backward = false;
      SerialExecutor serial;
      ThreadExecutor threads(3);
      const std::vector<float> got = forward_alone(data, nullptr, serial);
      Doubles q = wide(data.q), k = wide(data.k), v = wide(data.v), alpha = wide(data.alpha);
      const Doubles want = naive(data, {q, k, v, alpha});
      for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(static_cast<double>(got[i]), want[i], 2e-6) << i;
      EXPECT_EQ(forward_alone(data, nullptr, threads), got);
      data.problem.sequences.erase(data.problem.sequences.begin() + 1, data.problem.sequences.end());
      const std::vector<float> alone = forward_alone(data, nullptr, serial);
      EXPECT_TRUE(std::equal(alone.begin(), alone.begin() + 3 * dim, got.begin()));
    }
  }
}

// Their own path drops nothing, so that with dropout they must go the way of many.
TEST_P(RowsTest, FewQueriesAreDroppedToo) {
  Data data = make({.spec = "full", .lengths = {{3, 50}, {1, 17}}, .dropout = 0.5F});
  SerialExecutor serial;
  const std::vector<float> want = compute(kRowsKernel, data, data.q, serial).out;
  data.problem.needs_backward = false;
  const std::vector<float> got = forward_alone(data, nullptr, serial);
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-6) << i;
}

// A row of a [tokens, H, D] array.
std::span<float> row(std::vector<float>& x, const Data& data, int64_t token) {
  const auto size = static_cast<size_t>(data.problem.num_heads * data.problem.head_dim);
  return std::span(x).subspan(static_cast<size_t>(token) * size, size);
}

// Keys that sequences share and that lie in no order give the bits of copies that lie in a row.
TEST_P(RowsTest, KeysWhereAListSays) {
  for (const char* spec : {"full", "topk(3)", "entmax(1.5)", "relu", "dilated(5,3)", "random(3)", "window(4)|global(2)",
                           "topk(2,keep=dilated(3,4))"}) {
    for (const int64_t dim : {5, 32}) {
      SCOPED_TRACE(cat(spec, " dim ", dim));
      Data data = make({.spec = spec,
                        .kind = AttentionKind::kCausal,
                        .dim = dim,
                        .lengths = {{1, 7}, {1, 30}, {12, 40}, {3, 9}, {4, 2}, {1, 2100}}});
      data.problem.needs_backward = false;
      Data listed = data;
      listed.problem.keys_listed = true;
      std::ranges::fill(listed.k, std::nanf(""));
      std::ranges::fill(listed.v, std::nanf(""));
      // The array holds each token once, the last first; the sequences' first five keys are the same ones.
      constexpr int64_t kShared = 5;
      std::vector<int64_t> list(static_cast<size_t>(data.tokens_k));
      for (const Sequence& s : data.problem.sequences) {
        for (int64_t j = 0; j < s.k_length; ++j) {
          const int64_t token = (j < kShared ? 0 : s.k_begin) + j, place = data.tokens_k - 1 - token;
          list[static_cast<size_t>(s.k_begin + j)] = place;
          for (const auto of : {&Data::k, &Data::v}) {
            std::ranges::copy(row(data.*of, data, token), row(listed.*of, data, place).begin());
            std::ranges::copy(row(data.*of, data, token), row(data.*of, data, s.k_begin + j).begin());
          }
        }
      }
      SerialExecutor serial;
      ThreadExecutor threads(3);
      const std::vector<float> want = forward_alone(data, nullptr, serial);
      EXPECT_EQ(forward_alone(listed, list.data(), serial), want);
      EXPECT_EQ(forward_alone(listed, list.data(), threads), want);
    }
  }
}

TEST(Rows, AloneTakesKeysFromAList) {
  AttentionProblem problem;
  for (const char* spec : {"full", "topk(4)", "sparsemax", "entmax(1.5)", "relu"}) {
    problem.spec = parse_attention(spec);
    for (const Kernel& kernel : attention_kernels()) {
      problem.keys_listed = false;
      const size_t reasons = kernel.refuses(problem).size();
      problem.keys_listed = true;
      EXPECT_EQ(kernel.refuses(problem).size(), reasons + (kernel.name == kRowsKernel.name ? 0 : 1))
          << kernel.name << ' ' << spec;
    }
  }
  problem.needs_backward = true;
  EXPECT_FALSE(kRowsKernel.refuses(problem).empty());
}

INSTANTIATE_TEST_SUITE_P(Levels, RowsTest, testing::ValuesIn(runnable_isas()), level_title);

}  // namespace
}  // namespace fovea::kernels
