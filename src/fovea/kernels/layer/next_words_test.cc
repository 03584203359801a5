#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "fovea/base/rng.h"
#include "fovea/kernels/layer/levels_test.h"
#include "fovea/kernels/layer/prepacked.h"

namespace fovea::kernels::next_words_test {
namespace {

using testing::at_every_level;

struct BestWords {
  std::vector<int32_t> words;
  std::vector<float> log_probs;
  int64_t bad = 0;
};

// The best words of one row with these logits.
BestWords best_of(const std::vector<float>& logits, int64_t n) {
  SerialExecutor one;
  const std::vector<float> weight(logits.size(), 0.0F), hidden = {0.0F};
  const PrepackedLayer layer(LayerWeights<float>{weight.data(), logits.data(), std::ssize(logits), 1},
                             LayerFormat::kExact, one);
  BestWords best{std::vector<int32_t>(n), std::vector<float>(n)};
  float eos = 0;
  NextWords job{.hidden = hidden.data(), .output = &layer, .rows = 1, .hidden_stride = 1, .n = n};
  job.words = best.words.data(), job.log_probs = best.log_probs.data(), job.eos_log_prob = &eos;
  best.bad = next_words(job, one);
  return best;
}

std::vector<int32_t> sorted_words(const std::vector<float>& logits, int64_t n) {
  std::vector<int32_t> words(logits.size());
  std::iota(words.begin(), words.end(), 0);
  std::stable_sort(words.begin(), words.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  words.resize(n);
  return words;
}

// Few and many are found in different ways.
TEST(NextWordsOfAnyNumber, AreInOrderAndTiesTakeTheLowerWord) {
  for (const int64_t n : {1, 63, 64, 65, 66, 200, 499, 500, 999, 1000}) {
    Rng rng(static_cast<uint64_t>(n));
    std::vector<float> few_values(1000), rising(1000), falling(1000);
    for (float& x : few_values) x = static_cast<float>(rng.below(20)) / 4 - 2;
    std::iota(rising.begin(), rising.end(), -500.0F);
    std::transform(rising.begin(), rising.end(), falling.begin(), std::negate());
    few_values[3] = 0.0F, few_values[2] = -0.0F;  // equals
    for (const auto& logits : {few_values, rising, falling, std::vector<float>(1000, 1.5F)}) {
      at_every_level([&] {
        const BestWords best = best_of(logits, n);
        EXPECT_EQ(best.bad, 0);
        EXPECT_EQ(best.words, sorted_words(logits, n)) << n;
        EXPECT_TRUE(std::is_sorted(best.log_probs.rbegin(), best.log_probs.rend()));
        const float apart = logits[best.words[0]] - logits[best.words[n - 1]];
        EXPECT_NEAR(best.log_probs[0] - best.log_probs[n - 1], apart, 2e-4);  // floats of up to 1000
      });
    }
  }
}

// Rows of different kinds, some of which ask for nothing.
TEST(NextWords, AskedWordsHaveTheBitsThatTheyHaveAmongTheBest) {
  constexpr int64_t kRows = 21, kColumns = 300, kDepth = 9;
  Rng rng(5);
  std::vector<float> weight(kColumns * kDepth), bias(kColumns), hidden(kRows * kDepth);
  for (auto* values : {&weight, &bias, &hidden}) {
    for (float& x : *values) x = static_cast<float>(rng.normal());
  }
  hidden[4 * kDepth] = std::numeric_limits<float>::quiet_NaN();
  SerialExecutor one;
  for (const LayerFormat format : {LayerFormat::kExact, LayerFormat::kInt8}) {
    at_every_level([&] {
      const PrepackedLayer layer(LayerWeights<float>{weight.data(), bias.data(), kColumns, kDepth}, format, one);
      std::vector<int32_t> words(kRows * kColumns), few(kRows), asked;
      std::vector<float> log_probs(words.size()), eos(kRows), one_each(kRows);
      NextWords job{.hidden = hidden.data(), .output = &layer, .rows = kRows, .hidden_stride = kDepth, .n = kColumns};
      job.words = words.data(), job.log_probs = log_probs.data(), job.eos_log_prob = eos.data();
      EXPECT_EQ(next_words(job, one), 1);
      std::vector<int64_t> offsets = {0};
      std::vector<float> expected;
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t i = 0; i < r % 4; ++i) {
          const int64_t place = r * kColumns + (r * 31 + i * 97) % kColumns;
          asked.push_back(words[place]);
          expected.push_back(log_probs[place]);
        }
        offsets.push_back(std::ssize(asked));
      }
      std::vector<float> found(asked.size(), 1.0F);
      job.n = 1, job.words = few.data(), job.log_probs = one_each.data();
      job.asked_offsets = offsets.data(), job.asked = asked.data(), job.asked_log_probs = found.data();
      EXPECT_EQ(next_words(job, one), 1);
      EXPECT_EQ(found, expected);
    });
  }
}

TEST(NextWordsOfAnyNumber, MayLackLikelyOnes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> logits(300, -kInfinity);
  logits[250] = logits[5] = 1.5F;
  at_every_level([&] {
    const BestWords best = best_of(logits, 100);
    EXPECT_EQ(best.bad, 0);
    EXPECT_EQ(best.words, sorted_words(logits, 100));
    EXPECT_EQ(best.log_probs[2], -kInfinity);
  });
}

TEST(NextWordsOfAnyNumber, OfARowWithoutALogSoftmaxAreTheFirst) {
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> logits(300, 0.25F);
    logits[120] = wrong;
    at_every_level([&] {
      const BestWords best = best_of(logits, 100);
      EXPECT_EQ(best.bad, 1);
      EXPECT_EQ(best.words.back(), 99);
    });
  }
}

}  // namespace
}  // namespace fovea::kernels::next_words_test
