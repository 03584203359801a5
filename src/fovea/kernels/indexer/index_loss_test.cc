#include "fovea/kernels/indexer/index_loss.h"

#include <array>
#include <cmath>
#include <numeric>

#include "fovea/kernels/layer/levels_test.h"

namespace fovea::kernels::index_loss_test {
namespace {

using testing::at_every_level;

using Numbers = std::vector<double>;

struct LossCase {
  int64_t batch, queries, keys, heads, head_dim, count;
  int64_t width() const { return (head_dim + 15) / 16 * 16; }
  int64_t all() const { return batch * queries; }
};

// Rows of `width` numbers, zeros behind the first head_dim.
Numbers padded_normals(const LossCase& at, int64_t rows, uint64_t seed) {
  Rng rng(seed);
  Numbers values(static_cast<size_t>(rows * at.width()));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < at.head_dim; ++i)
      values[static_cast<size_t>(r * at.width() + i)] = static_cast<float>(rng.normal());
  }
  return values;
}

std::vector<float> floats(const Numbers& values) { return {values.begin(), values.end()}; }

struct LossInput {
  Numbers q, k, weights, target;
  std::vector<int32_t> indices;
};

// Keys in any order, some of their places empty; the first query has no key and the last one a target of zeros.
LossInput input_of(const LossCase& at) {
  LossInput in{padded_normals(at, at.all() * at.heads, 1), padded_normals(at, at.batch * at.keys, 2), {}, {}, {}};
  Rng rng(3);
  for (int64_t i = 0; i < at.all() * at.heads; ++i) in.weights.push_back(static_cast<float>(rng.normal()));
  for (int64_t i = 0; i < at.all(); ++i) {
    for (int64_t j = 0; j < at.count; ++j) {
      const auto key = static_cast<int32_t>((i * 7 + j * (at.keys - 1)) % at.keys);  // another for each j < keys
      in.indices.push_back(i == 0 || (i + j) % 5 == 3 ? -1 : key);
      in.target.push_back(i == at.all() - 1 ? 0 : static_cast<float>(rng.uniform()));
    }
  }
  return in;
}

// The chosen keys' numbers, by what the definition gives to each head: score(query, key, head).
template <class Score>
double divergence(const LossCase& at, const LossInput& in, int64_t query, const Score& score) {
  Numbers scores, target;
  for (int64_t j = 0; j < at.count; ++j) {
    const int64_t place = query * at.count + j;
    if (in.indices[static_cast<size_t>(place)] < 0) continue;
    double sum = 0;
    for (int64_t h = 0; h < at.heads; ++h)
      sum += in.weights[static_cast<size_t>(query * at.heads + h)] *
             std::max(0.0, score(query, in.indices[static_cast<size_t>(place)], h));
    scores.push_back(sum), target.push_back(in.target[static_cast<size_t>(place)]);
  }
  const double total = std::accumulate(target.begin(), target.end(), 0.0);
  if (total == 0) return 0;
  double exponentials = 0, loss = 0;
  for (const double s : scores) exponentials += std::exp(s);
  for (size_t j = 0; j < scores.size(); ++j) {
    const double p = target[j] / total;
    if (p > 0) loss += p * (std::log(p) - scores[j] + std::log(exponentials));
  }
  return loss;
}

double loss_of(const LossCase& at, const LossInput& in) {
  double sum = 0;
  for (int64_t i = 0; i < at.all(); ++i) {
    sum += divergence(at, in, i, [&](int64_t query, int64_t key, int64_t head) {
      const double* q = in.q.data() + (query * at.heads + head) * at.width();
      const double* k = in.k.data() + (query / at.queries * at.keys + key) * at.width();
      return std::inner_product(q, q + at.head_dim, k, 0.0);
    });
  }
  return sum;
}

// Compares with differences of the definition, where no product changes its sign within the step.
void expect_gradient(const LossCase& at, LossInput in, Numbers LossInput::*part, const std::vector<float>& found) {
  constexpr double kStep = 1e-6;
  for (size_t i = 0; i < found.size(); ++i) {
    double& value = (in.*part)[i];
    const double before = value;
    if (part != &LossInput::weights && static_cast<int64_t>(i) % at.width() >= at.head_dim) continue;
    value = before + kStep;
    const double above = loss_of(at, in);
    value = before - kStep;
    const double slope = (above - loss_of(at, in)) / (2 * kStep);
    value = before;
    ASSERT_NEAR(found[i], slope, 2e-5 * (1 + std::abs(slope))) << "number " << i;
  }
}

ChosenKeys chosen_of(const LossCase& at, const LossInput& in) {
  return {in.indices.data(), at.batch, at.queries, at.keys, at.count};
}

struct LossFound {
  IndexLossSum sum;
  std::vector<float> q, k, weights;
};

LossFound found(const LossCase& at, const LossInput& in, Executor& executor) {
  const std::vector<float> q = floats(in.q), k = floats(in.k), weights = floats(in.weights), target = floats(in.target);
  LossFound out{{}, std::vector<float>(q.size()), std::vector<float>(k.size()), std::vector<float>(weights.size())};
  IndexLoss job{.q = q.data(), .k = k.data(), .weights = weights.data(), .target = target.data()};
  job.chosen = chosen_of(at, in), job.heads = at.heads, job.width = at.width();
  out.sum = index_loss(job, executor);
  job.grad_q = out.q.data(), job.grad_k = out.k.data(), job.grad_weights = out.weights.data();
  const IndexLossSum again = index_loss(job, executor);
  EXPECT_EQ(again.loss, out.sum.loss);
  return out;
}

const std::vector<LossCase> kLossCases = {{2, 5, 9, 2, 3, 4}, {1, 3, 33, 3, 17, 20}, {1, 2, 1, 1, 1, 1}};

TEST(IndexLoss, IsItsDefinitionWithItsGradients) {
  for (const LossCase& at : kLossCases) {
    const LossInput in = input_of(at);
    at_every_level([&] {
      SerialExecutor serial;
      const LossFound out = found(at, in, serial);
      EXPECT_NEAR(out.sum.loss, loss_of(at, in), 1e-5 * (1 + out.sum.loss));
      expect_gradient(at, in, &LossInput::q, out.q);
      expect_gradient(at, in, &LossInput::k, out.k);
      expect_gradient(at, in, &LossInput::weights, out.weights);
    });
  }
}

TEST(IndexLoss, DoesNotDependOnThreads) {
  const LossCase at{2, 600, 300, 2, 16, 30};
  const LossInput in = input_of(at);
  SerialExecutor serial;
  ThreadExecutor threads(3);
  const LossFound one = found(at, in, serial), three = found(at, in, threads);
  EXPECT_EQ(one.sum.loss, three.sum.loss);
  EXPECT_EQ(one.sum.queries, three.sum.queries);
  EXPECT_EQ(one.q, three.q);
  EXPECT_EQ(one.k, three.k);
  EXPECT_EQ(one.weights, three.weights);
}

TEST(IndexTarget, IsTheMeanOfTheHeads) {
  const LossCase at{2, 5, 9, 6, 19, 4};
  const int64_t key_heads = 2;
  LossInput in = input_of(at);
  in.k = padded_normals(at, at.batch * key_heads * at.keys, 5);
  const std::vector<float> q = floats(in.q), k = floats(in.k);
  at_every_level([&] {
    ThreadExecutor threads(2);
    std::vector<float> out(in.indices.size(), -1);
    IndexTarget job{.q = q.data(), .k = k.data()};
    job.chosen = chosen_of(at, in), job.weights = out.data(), job.heads = at.heads, job.key_heads = key_heads;
    job.width = at.width(), job.scale = 0.25F;
    index_target(job, threads);
    for (int64_t i = 0; i < at.all(); ++i) {
      Numbers want(static_cast<size_t>(at.count));
      for (int64_t h = 0; h < at.heads; ++h) {
        Numbers weights(want.size());
        for (size_t j = 0; j < want.size(); ++j) {
          const int32_t key = in.indices[static_cast<size_t>(i * at.count) + j];
          if (key < 0) continue;
          const double* row = in.k.data() + ((i / at.queries * key_heads + h / 3) * at.keys + key) * at.width();
          const double* query = in.q.data() + (i * at.heads + h) * at.width();
          weights[j] = std::exp(0.25 * std::inner_product(query, query + at.head_dim, row, 0.0));
        }
        const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
        for (size_t j = 0; j < want.size(); ++j) want[j] += total > 0 ? weights[j] / total / 6 : 0;
      }
      for (size_t j = 0; j < want.size(); ++j) EXPECT_NEAR(out[static_cast<size_t>(i * at.count) + j], want[j], 1e-6);
    }
  });
}

}  // namespace
}  // namespace fovea::kernels::index_loss_test
