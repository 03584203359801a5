#include "fovea/search/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea::search::sample_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_logits(size_t count, uint64_t seed) {
  std::vector<float> logits;
  Rng rng(seed);
  for (size_t i = 0; i < count; ++i) logits.push_back(static_cast<float>(2 * rng.normal()));
  return logits;
}

// The probabilities that the options ask for, by sorting all tokens.
std::vector<double> probabilities(const std::vector<float>& logits, const SampleOptions& options) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  const size_t k = options.top_k == 0 ? order.size() : std::min<size_t>(order.size(), options.top_k);
  std::vector<double> p(logits.size());
  double total = 0;
  for (const size_t token : order) {
    if (logits[token] < logits[order[k - 1]]) break;
    p[token] = std::exp((double{logits[token]} - double{logits[order[0]]}) / options.temperature);
    total += p[token];
  }
  double mass = 0, kept = 0;
  for (const size_t token : order) {
    const bool stays = mass == 0 || mass < options.top_p * total;
    mass += p[token];
    if (!stays) p[token] = 0;
    kept += p[token];
  }
  for (double& probability : p) probability /= kept;
  return p;
}

// Pearson's statistic, of d degrees of freedom, passes d + 2 sqrt(12 d) + 24 with a probability of at most e^-12
// (Laurent and Massart 2000, lemma 1). The seed fixes the draws.
void expect_distribution(const std::vector<float>& logits, const SampleOptions& options) {
  constexpr int kDraws = 20000;
  const std::vector<double> p = probabilities(logits, options);
  std::vector<int> count(p.size());
  for (uint64_t i = 0; i < kDraws; ++i) ++count.at(static_cast<size_t>(sample(logits, options, 7, i)));
  double statistic = 0, freedom = -1, rare = 0, rare_count = 0;
  const auto add = [&](double expected, double got) {
    statistic += (got - expected) * (got - expected) / expected, freedom += 1;
  };
  for (size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * kDraws;
    if (p[i] == 0) {
      EXPECT_EQ(count[i], 0) << "token " << i << " is not among those left";
    } else if (expected < 5) {  // rare ones together, as the statistic wants
      rare += expected, rare_count += count[i];
    } else {
      add(expected, count[i]);
    }
  }
  if (rare >= 5) add(rare, rare_count);
  EXPECT_LT(statistic, freedom + 2 * std::sqrt(12 * freedom) + 24);
}

TEST(Sample, DrawsFromTheDistributionOfTheOptions) {
  std::vector<float> logits = random_logits(60, 3);
  logits[10] = logits[20] = logits[30] = 2.5F;  // ties near the top
  logits[40] = -kInfinity;
  for (const double temperature : {0.3, 1.0, 2.0}) {
    for (const int64_t top_k : {0, 2, 5, 59, 60, 100}) {
      for (const double top_p : {1.0, 0.95, 0.5, 1e-9}) {
        SCOPED_TRACE(cat(temperature, " ", top_k, " ", top_p));
        expect_distribution(logits, {.temperature = temperature, .top_k = top_k, .top_p = top_p});
      }
    }
  }
}

TEST(Sample, KeepsAllThatEqualTheKthAndCutsEqualProbabilitiesByToken) {
  const std::vector<float> logits = {0, 1, 0, 1, 0, 1, 1, 0};
  for (uint64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(logits[static_cast<size_t>(sample(logits, {.top_k = 2}, 1, i))], 1);
    // Two of four have half of the mass.
    const int64_t token = sample(logits, {.top_k = 4, .top_p = 0.5}, 1, i);
    EXPECT_TRUE(token == 1 || token == 3) << token;
    EXPECT_EQ(sample(logits, {.top_p = 1e-12}, 1, i), 1);
  }
  expect_distribution(logits, {.top_k = 2});
  expect_distribution(logits, {.top_k = 4, .top_p = 0.5});
}

TEST(Sample, TemperatureZeroAndTopOneAreTheFirstOfTheGreatest) {
  const std::vector<float> logits = {-3, 2, -kInfinity, 2, 1};
  for (uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(sample(logits, {.temperature = 0}, i, i), 1);
    EXPECT_EQ(sample(logits, {.top_k = 1}, i, i), 1);
    EXPECT_EQ(sample(logits, {.temperature = 0, .top_k = 3, .top_p = 0.1}, i, i), 1);
    EXPECT_EQ(sample(logits, {.temperature = 1e-320, .top_k = 0}, i, i) % 2, 1) << "so cold that only equals are left";
  }
}

// Options that leave every token change no draw: the order of tokens is that of their numbers in any case.
TEST(Sample, OptionsThatLeaveAllAreThePlainDraw) {
  const std::vector<float> logits = random_logits(3000, 5);
  for (uint64_t i = 0; i < 200; ++i) {
    const int64_t plain = sample(logits, {.temperature = 1.3}, 9, i);
    EXPECT_EQ(sample(logits, {.temperature = 1.3, .top_k = 3000}, 9, i), plain);
    EXPECT_EQ(sample(logits, {.temperature = 1.3, .top_k = 5000, .top_p = 1}, 9, i), plain);
    EXPECT_EQ(sample(logits, {.temperature = 1.3, .top_p = 1 - 1e-15}, 9, i), plain);
  }
}

TEST(Sample, IsAFunctionOfSeedAndCounter) {
  const std::vector<float> logits = random_logits(1000, 6);
  int by_seed = 0, by_counter = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    const int64_t token = sample(logits, {}, 3, i);
    EXPECT_EQ(sample(logits, {}, 3, i), token);
    by_seed += sample(logits, {}, 4, i) != token ? 1 : 0;
    by_counter += sample(logits, {}, 3, i + 1) != token ? 1 : 0;
  }
  EXPECT_GT(by_seed, 80);
  EXPECT_GT(by_counter, 80);
  // Kept by hand: the same on every machine.
  const std::vector<float> even(10, 0.5F);
  std::vector<int64_t> drawn;
  for (uint64_t i = 0; i < 8; ++i) drawn.push_back(sample(even, {}, 1, i));
  std::vector<int64_t> expected;
  for (uint64_t i = 0; i < 8; ++i) expected.push_back(static_cast<int64_t>(Rng(1, i).uniform() * 10));
  EXPECT_EQ(drawn, expected);
}

TEST(Sample, TakesLargeVocabularies) {
  const std::vector<float> logits = random_logits(267735, 8);
  for (const SampleOptions& options :
       {SampleOptions{}, SampleOptions{.top_k = 40}, SampleOptions{.top_p = 0.9}, SampleOptions{.top_k = 100000},
        SampleOptions{.temperature = 0.5, .top_k = 2000, .top_p = 0.7}}) {
    const std::vector<double> p = probabilities(logits, options);
    for (uint64_t i = 0; i < 20; ++i) EXPECT_GT(p.at(static_cast<size_t>(sample(logits, options, 2, i))), 0);
  }
}

TEST(Sample, SaysWhenLogitsHaveNoSoftmax) {
  for (const SampleOptions& options : {SampleOptions{}, SampleOptions{.temperature = 0}, SampleOptions{.top_k = 2}}) {
    EXPECT_EQ(sample(std::vector<float>{0, std::nanf(""), 1}, options, 1, 1), kNotFinite);
    EXPECT_EQ(sample(std::vector<float>{0, kInfinity, 1}, options, 1, 1), kNotFinite);
    EXPECT_EQ(sample(std::vector<float>{-kInfinity, -kInfinity}, options, 1, 1), kNotFinite);
    EXPECT_EQ(sample(std::vector<float>{}, options, 1, 1), kNotFinite);
    EXPECT_EQ(sample(std::vector<float>{-kInfinity, -1e38F, -kInfinity}, options, 1, 1), 1);
  }
}

TEST(Sample, RefusesOptionsOutsideTheirRanges) {
  const auto message = [](const SampleOptions& options) {
    return message_of([&] { sample(std::vector<float>{1, 2}, options, 1, 1); });
  };
  EXPECT_EQ(message({.temperature = -1}), "sample: temperature -1 is not a finite number of at least 0");
  EXPECT_EQ(message({.temperature = std::nan("")}), "sample: temperature nan is not a finite number of at least 0");
  EXPECT_EQ(message({.temperature = kInfinity}), "sample: temperature inf is not a finite number of at least 0");
  EXPECT_EQ(message({.top_k = -1}), "sample: top_k -1 is not at least 0");
  EXPECT_EQ(message({.top_p = 0}), "sample: top_p 0 is not in (0, 1]");
  EXPECT_EQ(message({.top_p = 1.5}), "sample: top_p 1.5 is not in (0, 1]");
  EXPECT_EQ(message({.top_p = std::nan("")}), "sample: top_p nan is not in (0, 1]");
}

}  // namespace
}  // namespace fovea::search::sample_test
