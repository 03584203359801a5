#include "fovea/kernels/attention/cpu/clause_mix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "fovea/kernels/attention/cpu/at_level_test.h"

// The mix of clauses against its definition in float64, at every instruction-set level.
namespace fovea::kernels {
namespace {

struct Inputs {
  ClauseMixShape shape;
  std::vector<float> q, k, v, grad_out, p;
  int64_t width() const { return shape.heads * shape.head_dim; }
  int64_t tokens() const { return shape.offsets.back(); }
};

struct Outputs {
  std::vector<float> out, grad_q, grad_k, grad_v, grad_p;
};

// Clauses of 16 tokens, halved at each deeper level. `peak` multiplies the queries.
Inputs make(const std::vector<int64_t>& lengths, int64_t heads, int64_t head_dim, int64_t levels, float peak = 1) {
  Inputs inputs;
  inputs.shape = {.heads = heads, .head_dim = head_dim, .levels = levels, .offsets = {0}, .scale = 0.4F};
  for (const int64_t length : lengths) inputs.shape.offsets.push_back(inputs.shape.offsets.back() + length);
  for (int64_t level = 0; level < levels; ++level) {
    const int64_t step = int64_t{16} >> level;
    for (size_t b = 0; b < lengths.size(); ++b) {
      for (int64_t i = 0; i < lengths[b]; ++i) {
        const int64_t begin = i / step * step, end = std::min(begin + step, lengths[b]);
        inputs.shape.begins.push_back(static_cast<int32_t>(inputs.shape.offsets[b] + begin));
        inputs.shape.ends.push_back(static_cast<int32_t>(inputs.shape.offsets[b] + end));
      }
    }
  }
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::vector<float>& values, int64_t size, float factor) {
    values.resize(static_cast<size_t>(size));
    for (float& value : values) value = factor * normal(random);
  };
  fill(inputs.q, inputs.tokens() * inputs.width(), peak);
  fill(inputs.k, inputs.tokens() * inputs.width(), 1);
  fill(inputs.v, inputs.tokens() * inputs.width(), 1);
  fill(inputs.grad_out, inputs.tokens() * inputs.width(), 1);
  for (int64_t i = 0; i < levels * heads; ++i) inputs.p.push_back(0.2F + 0.5F * static_cast<float>(i % 4) / 3);
  return inputs;
}

Outputs compute(const Inputs& in, Executor& executor) {
  const auto rows = [&](const std::vector<float>& values) {
    return Rows<const void>{values.data(), in.width(), in.shape.head_dim};
  };
  const auto results = [&](std::vector<float>& values) {
    values.assign(in.q.size(), std::nanf(""));
    return Rows<void>{values.data(), in.width(), in.shape.head_dim};
  };
  Outputs outputs;
  outputs.grad_p.resize(in.p.size());
  clause_mix(in.shape, ClauseMixForward{rows(in.q), rows(in.k), rows(in.v), results(outputs.out), in.p.data()},
             executor);
  clause_mix(in.shape,
             ClauseMixBackward{rows(in.q), rows(in.k), rows(in.v), rows(in.grad_out), results(outputs.grad_q),
                               results(outputs.grad_k), results(outputs.grad_v), in.p.data(), outputs.grad_p.data()},
             executor);
  return outputs;
}

// One row of the definition: the weights of each part, and their mix by p.
class DefinedRow {
 public:
  DefinedRow(const Inputs& in, size_t b, int64_t head, int64_t query)
      : in_(in), begin_(in.shape.offsets[b]), length_(in.shape.offsets[b + 1] - begin_), head_(head), query_(query) {
    for (int64_t level = 0; level <= in.shape.levels; ++level) parts.push_back(part(level));
  }

  double p(int64_t level) const { return double{in_.p[static_cast<size_t>(level * in_.shape.heads + head_)]}; }
  // c_0 = 1 - p_1, c_1 = p_1 (1 - p_2), ..., c_L = p_1 ... p_L
  double share(int64_t level) const {
    double c = level == in_.shape.levels ? 1 : 1 - p(level);
    for (int64_t l = 0; l < level; ++l) c *= p(l);
    return c;
  }
  double weight(int64_t key) const {
    double sum = 0;
    for (int64_t level = 0; level <= in_.shape.levels; ++level)
      sum += share(level) * parts[static_cast<size_t>(level)][static_cast<size_t>(key)];
    return sum;
  }
  size_t at(int64_t token, int64_t d) const {
    return static_cast<size_t>((begin_ + token) * in_.width() + head_ * in_.shape.head_dim + d);
  }
  double dot(const std::vector<float>& a, int64_t i, const std::vector<float>& b, int64_t j) const {
    double sum = 0;
    for (int64_t d = 0; d < in_.shape.head_dim; ++d) sum += double{a[at(i, d)]} * double{b[at(j, d)]};
    return sum;
  }
  int64_t length() const { return length_; }

  std::vector<std::vector<double>> parts;  // [levels + 1][length], each sums to 1

 private:
  std::vector<double> part(int64_t level) const {
    int64_t first = 0, last = length_;
    if (level > 0) {
      const auto token = static_cast<size_t>((level - 1) * in_.tokens() + begin_ + query_);
      first = in_.shape.begins[token] - begin_, last = in_.shape.ends[token] - begin_;
    }
    std::vector<double> weights(static_cast<size_t>(length_), 0.0);
    double top = -INFINITY, total = 0;
    const auto score = [&](int64_t j) { return double{in_.shape.scale} * dot(in_.q, query_, in_.k, j); };
    for (int64_t j = first; j < last; ++j) top = std::max(top, score(j));
    for (int64_t j = first; j < last; ++j) total += weights[static_cast<size_t>(j)] = std::exp(score(j) - top);
    for (double& weight : weights) weight /= total;
    return weights;
  }

  const Inputs& in_;
  int64_t begin_, length_, head_, query_;
};

struct Defined {
  std::vector<double> out, grad_q, grad_k, grad_v, grad_p;
};

void add_row(const Inputs& in, const DefinedRow& row, int64_t query, int64_t head, Defined& defined) {
  const int64_t levels = in.shape.levels, head_dim = in.shape.head_dim;
  std::vector<double> grads, means(static_cast<size_t>(levels + 1), 0.0);
  for (int64_t j = 0; j < row.length(); ++j) grads.push_back(row.dot(in.grad_out, query, in.v, j));
  for (int64_t level = 0; level <= levels; ++level)
    for (size_t j = 0; j < grads.size(); ++j)
      means[static_cast<size_t>(level)] += row.parts[static_cast<size_t>(level)][j] * grads[j];
  for (int64_t j = 0; j < row.length(); ++j) {
    double grad_score = 0;
    for (int64_t level = 0; level <= levels; ++level)
      grad_score += row.share(level) * row.parts[static_cast<size_t>(level)][static_cast<size_t>(j)] *
                    (grads[static_cast<size_t>(j)] - means[static_cast<size_t>(level)]);
    grad_score *= double{in.shape.scale};
    const double weight = row.weight(j);
    for (int64_t d = 0; d < head_dim; ++d) {
      defined.out[row.at(query, d)] += weight * double{in.v[row.at(j, d)]};
      defined.grad_v[row.at(j, d)] += weight * double{in.grad_out[row.at(query, d)]};
      defined.grad_q[row.at(query, d)] += grad_score * double{in.k[row.at(j, d)]};
      defined.grad_k[row.at(j, d)] += grad_score * double{in.q[row.at(query, d)]};
    }
  }
  // out depends on p_l through the shares of the levels from l - 1 on: d share(m) / d p_l by differences, which are
  // exact because each share is linear in each p.
  for (int64_t level = 0; level < levels; ++level) {
    double outer = 1, inner = 0, left = 1;
    for (int64_t l = 0; l < level; ++l) outer *= row.p(l);
    for (int64_t l = level + 1; l <= levels; ++l) {
      inner += left * (l == levels ? 1 : 1 - row.p(l)) * means[static_cast<size_t>(l)];
      if (l < levels) left *= row.p(l);
    }
    defined.grad_p[static_cast<size_t>(level * in.shape.heads + head)] +=
        outer * (inner - means[static_cast<size_t>(level)]);
  }
}

Defined define(const Inputs& in) {
  const std::vector<double> zeros(in.q.size(), 0.0);
  Defined defined{zeros, zeros, zeros, zeros, std::vector<double>(in.p.size(), 0.0)};
  for (size_t b = 0; b + 1 < in.shape.offsets.size(); ++b)
    for (int64_t head = 0; head < in.shape.heads; ++head)
      for (int64_t query = 0; query < in.shape.offsets[b + 1] - in.shape.offsets[b]; ++query)
        add_row(in, DefinedRow(in, b, head, query), query, head, defined);
  return defined;
}

// float32 rounds each of the sums below to about 1e-7 of its largest term; `terms` is the size of the sums.
void expect_near(const std::vector<float>& got, const std::vector<double>& want, double terms) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(double{got[i]}, want[i], 2e-6 * terms) << i;
}

class ClauseMix : public LevelTest {};

TEST_P(ClauseMix, IsItsDefinition) {
  for (const int64_t head_dim : {3, 16, 33}) {
    for (const int64_t levels : {1, 2, 4}) {
      const Inputs in = make({5, 1, 37, 64}, 3, head_dim, levels);
      SerialExecutor serial;
      const Outputs got = compute(in, serial);
      const Defined want = define(in);
      const double dots = 3 * std::sqrt(static_cast<double>(head_dim));
      expect_near(got.out, want.out, 3);
      expect_near(got.grad_q, want.grad_q, 3 * dots);
      expect_near(got.grad_k, want.grad_k, 10 * dots);
      expect_near(got.grad_v, want.grad_v, 10);
      expect_near(got.grad_p, want.grad_p, 100 * dots);
    }
  }
}

// If a query's own clause has almost no weight in the whole sequence, the softmax of the clause keeps its digits.
TEST_P(ClauseMix, ClausesWithoutWeightKeepTheirDigits) {
  const Inputs in = make({70}, 2, 16, 2, 60);
  SerialExecutor serial;
  const Outputs got = compute(in, serial);
  const Defined want = define(in);
  // Scores reach about 400, so float32 rounds them by 3e-5, and the weights by as much.
  expect_near(got.out, want.out, 60);
  expect_near(got.grad_v, want.grad_v, 200);
}

// A sequence's results do not depend on its neighbours or on the threads. Of two neighbouring lengths the shorter one
// can need more scratch memory, because more of its rows are worked on at once (24 rows of 336 columns, 12 of 337).
TEST_P(ClauseMix, NeighboursChangeNoBit) {
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{336, 337}, {337, 336}, {80, 81, 20}, {144, 145, 1}}) {
    const Inputs in = make(lengths, 2, 32, 2);
    SerialExecutor serial;
    ThreadExecutor threads(3);
    const Outputs got = compute(in, serial), other = compute(in, threads);
    EXPECT_EQ(got.out, other.out);
    EXPECT_EQ(got.grad_q, other.grad_q);
    EXPECT_EQ(got.grad_k, other.grad_k);
    EXPECT_EQ(got.grad_v, other.grad_v);
    EXPECT_EQ(got.grad_p, other.grad_p);
    Inputs alone = make({lengths[0]}, 2, 32, 2);
    const auto size = static_cast<int64_t>(alone.q.size());
    alone.q.assign(in.q.begin(), in.q.begin() + size);
    alone.k.assign(in.k.begin(), in.k.begin() + size);
    alone.v.assign(in.v.begin(), in.v.begin() + size);
    alone.grad_out.assign(in.grad_out.begin(), in.grad_out.begin() + size);
    const Outputs first = compute(alone, serial);
    EXPECT_TRUE(std::equal(first.out.begin(), first.out.end(), got.out.begin()));
    EXPECT_TRUE(std::equal(first.grad_q.begin(), first.grad_q.end(), got.grad_q.begin()));
    EXPECT_TRUE(std::equal(first.grad_k.begin(), first.grad_k.end(), got.grad_k.begin()));
    EXPECT_TRUE(std::equal(first.grad_v.begin(), first.grad_v.end(), got.grad_v.begin()));
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, ClauseMix, testing::ValuesIn(runnable_isas()), level_title);

}  // namespace
}  // namespace fovea::kernels
