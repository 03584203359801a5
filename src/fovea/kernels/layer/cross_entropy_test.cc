#include "fovea/kernels/layer/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/kernels/layer/levels_test.h"

namespace fovea::kernels::cross_entropy_test {
namespace {

using testing::at_every_level;
using testing::expect_close;
using testing::normals;
using testing::Values;

// All of it in double, a token at a time; the sizes are those of expect_close.
struct Truth {
  std::vector<double> nll, loss, hidden, weight, bias, hidden_sizes, weight_sizes, bias_sizes;
};

template <class T>
struct Problem {
  Values<T> hidden, weight, bias;
  std::vector<int64_t> targets;
  int64_t tokens, width, vocabulary;
  double smoothing, softcap = 0;
};

template <class T>
void add_token(const Problem<T>& problem, int64_t t, Truth& truth) {
  const int64_t vocabulary = problem.vocabulary, width = problem.width;
  std::vector<double> logits = problem.bias.exact;
  std::vector<double> slopes(logits.size(), 1);
  double sum_of_logits = 0;
  for (int64_t v = 0; v < vocabulary; ++v) {
    for (int64_t m = 0; m < width; ++m) {
      logits[v] += problem.hidden.exact[t * width + m] * problem.weight.exact[v * width + m];
    }
    if (problem.softcap > 0) {
      const double share = std::tanh(logits[v] / problem.softcap);
      logits[v] = problem.softcap * share, slopes[v] = 1 - share * share;
    }
    sum_of_logits += logits[v];
  }
  const double most = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const double logit : logits) total += std::exp(logit - most);
  const double log_total = most + std::log(total), smoothing = problem.smoothing;
  truth.nll.push_back(log_total - logits[problem.targets[t]]);
  truth.loss.push_back((1 - smoothing) * truth.nll.back() +
                       smoothing * (log_total - sum_of_logits / static_cast<double>(vocabulary)));
  for (int64_t v = 0; v < vocabulary; ++v) {
    const double p = std::exp(logits[v] - log_total),
                 wanted = smoothing / static_cast<double>(vocabulary) + (v == problem.targets[t] ? 1 - smoothing : 0);
    const double grad = (p - wanted) * slopes[v], size = (p + wanted) * slopes[v];
    truth.bias[v] += grad, truth.bias_sizes[v] += size;
    for (int64_t m = 0; m < width; ++m) {
      const double h = problem.hidden.exact[t * width + m], w = problem.weight.exact[v * width + m];
      truth.hidden[t * width + m] += grad * w, truth.hidden_sizes[t * width + m] += size * std::abs(w);
      truth.weight[v * width + m] += grad * h, truth.weight_sizes[v * width + m] += size * std::abs(h);
    }
  }
}

template <class T>
Truth solve(const Problem<T>& problem) {
  Truth truth;
  truth.hidden.resize(problem.tokens * problem.width), truth.hidden_sizes = truth.hidden;
  truth.weight.resize(problem.vocabulary * problem.width), truth.weight_sizes = truth.weight;
  truth.bias.resize(problem.vocabulary), truth.bias_sizes = truth.bias;
  for (int64_t t = 0; t < problem.tokens; ++t) add_token(problem, t, truth);
  return truth;
}

template <class T>
class CrossEntropyKernelTest : public ::testing::Test {};
using Elements = ::testing::Types<float, uint16_t>;
TYPED_TEST_SUITE(CrossEntropyKernelTest, Elements);

template <class T>
Problem<T> random_problem(int64_t tokens, int64_t width, int64_t vocabulary) {
  Problem<T> problem{normals<T>(tokens * width, 1),
                     normals<T>(vocabulary * width, 2),
                     normals<T>(vocabulary, 3),
                     {},
                     tokens,
                     width,
                     vocabulary,
                     0.1,
                     0};
  Rng rng(7);
  for (int64_t t = 0; t < tokens; ++t) {
    problem.targets.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(vocabulary))));
  }
  return problem;
}

template <class T>
struct Found {
  std::vector<float> nll, loss;
  std::vector<T> hidden, weight, bias;
  bool operator==(const Found&) const = default;
};

template <class T>
Found<T> compute(const Problem<T>& problem, Executor& executor) {
  Found<T> found;
  found.nll.resize(problem.tokens), found.loss.resize(problem.tokens);
  found.hidden.resize(problem.tokens * problem.width), found.weight.resize(problem.vocabulary * problem.width);
  found.bias.resize(problem.vocabulary);
  CrossEntropyJob<T> job{.hidden = problem.hidden.kept.data(),
                         .weight = problem.weight.kept.data(),
                         .bias = problem.bias.kept.data(),
                         .targets = problem.targets.data()};
  job.tokens = problem.tokens, job.width = problem.width, job.vocabulary = problem.vocabulary, job.smoothing = 0.1F;
  job.softcap = problem.softcap;
  job.nll = found.nll.data(), job.loss = found.loss.data();
  job.grad_hidden = found.hidden.data(), job.grad_weight = found.weight.data(), job.grad_bias = found.bias.data();
  cross_entropy(job, executor);
  return found;
}

template <class T>
void expect_near(const Found<T>& found, const Truth& truth) {
  // Differences of numbers up to some tens, each rounded to 2^-24 of itself after sums of some dozen.
  for (size_t t = 0; t < found.nll.size(); ++t) {
    EXPECT_NEAR(found.nll[t], truth.nll[t], 2e-5);
    EXPECT_NEAR(found.loss[t], truth.loss[t], 2e-5);
  }
  // The probabilities carry the logits' error, a few 2^-22, so floats are held to sixteen times the products' bound.
  const auto scaled = [](std::vector<double> sizes) {
    for (double& size : sizes) size *= sizeof(T) == 4 ? 16 : 2;
    return sizes;
  };
  expect_close(found.hidden, truth.hidden, scaled(truth.hidden_sizes));
  expect_close(found.weight, truth.weight, scaled(truth.weight_sizes));
  expect_close(found.bias, truth.bias, scaled(truth.bias_sizes));
}

TYPED_TEST(CrossEntropyKernelTest, AgreesWithDoubleAtEveryLevelAndThreadCount) {
  for (const auto& [tokens, width, vocabulary] : {std::array<int64_t, 3>{1, 1, 1}, {5, 3, 33}, {131, 17, 700}}) {
    // The soft cap 4 bends most logits, whose deviation is at most 4; the cap 30 bends few.
    for (const double softcap : {0.0, 4.0, 30.0}) {
      Problem<TypeParam> problem = random_problem<TypeParam>(tokens, width, vocabulary);
      problem.softcap = softcap;
      const Truth truth = solve(problem);
      at_every_level([&] {
        SerialExecutor one;
        ThreadExecutor three(3);
        const Found<TypeParam> alone = compute(problem, one);
        expect_near(alone, truth);
        EXPECT_TRUE(compute(problem, three) == alone);
      });
    }
  }
}

// One token of width 1 whose logits are those of `bias`.
struct BiasAlone {
  explicit BiasAlone(std::vector<float> logits) : bias(std::move(logits)), weight(bias.size()), grads(bias.size()) {}

  // Runs the kernel; returns whether the target is the best word.
  bool run(int64_t target, float smoothing, double softcap = 0) {
    const std::vector<float> hidden(1, 1);
    std::vector<float> grad_hidden(1), grad_weight(bias.size());
    CrossEntropyJob<float> job{
        .hidden = hidden.data(), .weight = weight.data(), .bias = bias.data(), .targets = &target};
    job.tokens = job.width = 1, job.vocabulary = static_cast<int64_t>(bias.size()), job.smoothing = smoothing;
    job.softcap = softcap;
    job.nll = &nll, job.loss = &loss;
    job.grad_hidden = grad_hidden.data(), job.grad_weight = grad_weight.data(), job.grad_bias = grads.data();
    SerialExecutor executor;
    bool best = false;
    job.best = &best;
    cross_entropy(job, executor);
    return best;
  }

  std::vector<float> bias, weight, grads;
  float nll = 0, loss = 0;
};

TEST(CrossEntropyKernel, WordsThatCannotBeWeighNothing) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  at_every_level([] {
    std::vector<float> logits(2048, 0);
    std::fill(logits.begin() + 500, logits.begin() + 1540, -kInfinity);  // whole pieces of the vocabulary among them
    BiasAlone problem(logits);
    problem.run(3, 0);
    EXPECT_NEAR(problem.nll, std::log(1008.0), 1e-6);  // a rounding of 7, and one of the logarithm
    EXPECT_EQ(problem.loss, problem.nll);
    EXPECT_NEAR(problem.grads[3], 1.0 / 1008 - 1, 1e-6);
    EXPECT_EQ(problem.grads[600], 0);
    BiasAlone none(std::vector<float>(700, -kInfinity));
    none.run(3, 0);
    EXPECT_TRUE(std::isnan(none.nll));
  });
}

TEST(CrossEntropyKernel, SaysWhetherNoWordIsBetterThanTheTarget) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  at_every_level([] {
    std::vector<float> logits;
    for (int i = 0; i < 1100; ++i) logits.push_back(static_cast<float>(i % 37) / 8 - 9);
    BiasAlone problem(logits);
    EXPECT_TRUE(problem.run(36, 0));
    EXPECT_TRUE(problem.run(36 + 37 * 28, 0)) << "an equal word stands in another piece of the vocabulary";
    EXPECT_FALSE(problem.run(35, 0));
    EXPECT_FALSE(problem.run(1099, 0));
    problem.bias[700] = -kInfinity;
    EXPECT_TRUE(problem.run(36, 0));
    EXPECT_FALSE(problem.run(700, 0));
    problem.bias[800] = std::nanf("");
    EXPECT_FALSE(problem.run(36, 0)) << "no order among logits that are not numbers";
    EXPECT_FALSE(problem.run(800, 0));
    EXPECT_TRUE(BiasAlone({-3}).run(0, 0));
    EXPECT_FALSE(BiasAlone({-kInfinity, -kInfinity}).run(0, 0));
  });
}

TEST(CrossEntropyKernel, ASoftCapHoldsLogitsOfAnySize) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  at_every_level([] {
    // Capped to -2, -2, 0, 2, 2: the two largest are equal, and each end of a logit's range has no gradient.
    BiasAlone problem({-kInfinity, -1e30F, 0, 1e30F, kInfinity});
    EXPECT_TRUE(problem.run(3, 0, 2));
    const double total = 2 * std::exp(-2) + 1 + 2 * std::exp(2);
    EXPECT_NEAR(problem.nll, std::log(total) - 2, 1e-6);  // roundings of numbers below 4
    for (const size_t end : {0, 1, 3, 4}) EXPECT_EQ(problem.grads[end], 0) << end;
    EXPECT_NEAR(problem.grads[2], 1 / total, 1e-7);
    BiasAlone none({0, std::nanf(""), 1});
    none.run(0, 0, 2);
    EXPECT_TRUE(std::isnan(none.nll));
  });
}

TEST(CrossEntropyKernel, LargeLogitsLoseNoDigitsOfTheLoss) {
  at_every_level([] {
    std::vector<float> logits;  // exact beside the offset
    logits.reserve(1100);
    for (int i = 0; i < 1100; ++i) logits.push_back(static_cast<float>(i % 37) / 8);
    BiasAlone low(logits);
    for (float& logit : logits) logit += 30000;
    BiasAlone high(logits);
    low.run(36, 0.1F), high.run(36, 0.1F);
    EXPECT_EQ(high.nll, low.nll);
    EXPECT_EQ(high.loss, low.loss);
    double total = 0, sum = 0;
    for (const float logit : low.bias) total += std::exp(double{logit} - 4.5), sum += double{logit} - 4.5;
    const double nll = std::log(total), loss = 0.9 * nll + 0.1 * (nll - sum / 1100);
    EXPECT_NEAR(low.nll, nll, 2e-6);  // of sums of 1,100 numbers in 16 lanes, and the roundings of numbers below 8
    EXPECT_NEAR(low.loss, loss, 2e-6);
  });
}

}  // namespace
}  // namespace fovea::kernels::cross_entropy_test
