#include "fovea/kernels/layer/top_n.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "fovea/base/rng.h"

namespace fovea::kernels::top_n_test {
namespace {

struct TopNResult {
  std::vector<Candidate> best;
  std::vector<float> eos;
  int64_t bad;
};

TopNResult top_n(const std::vector<float>& logits, int64_t rows, int64_t n, int64_t eos, int threads = 1) {
  TopNResult result{std::vector<Candidate>(static_cast<size_t>(rows * n)),
                    std::vector<float>(static_cast<size_t>(rows)), 0};
  ThreadExecutor executor(threads);
  const int64_t vocabulary = static_cast<int64_t>(logits.size()) / rows;
  result.bad =
      top_n_log_softmax({logits.data(), rows, vocabulary}, {n, eos, result.best.data(), result.eos.data()}, executor);
  return result;
}

TEST(TopN, IsTheSortedLogSoftmax) {
  for (const int64_t vocabulary : {1, 2, 7, 8, 15, 16, 17, 33, 100, 1000, 1003}) {
    for (const int64_t wanted : {1, 2, 6, 16, 40, 64, 65, 300, 1003}) {
      const int64_t n = std::min(wanted, vocabulary), rows = 3, eos = vocabulary / 2;
      Rng rng(static_cast<uint64_t>(vocabulary * 100 + n));
      std::vector<float> logits(static_cast<size_t>(rows * vocabulary));
      // Few different values: ties in every row.
      for (float& x : logits) x = static_cast<float>(rng.below(50)) / 4 - 20;
      const TopNResult found = top_n(logits, rows, n, eos);
      EXPECT_EQ(found.bad, 0);
      for (int64_t r = 0; r < rows; ++r) {
        const float* row = &logits[static_cast<size_t>(r * vocabulary)];
        double sum = 0;
        for (int64_t i = 0; i < vocabulary; ++i) sum += std::exp(static_cast<double>(row[i]));
        std::vector<int32_t> order(static_cast<size_t>(vocabulary));
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return row[a] > row[b]; });
        // The sum has relative error of some roundings of float, the logits magnitude 20: ulp 2e-6.
        for (int64_t i = 0; i < n; ++i) {
          const Candidate& c = found.best[static_cast<size_t>(r * n + i)];
          EXPECT_EQ(c.token, order[static_cast<size_t>(i)]);
          EXPECT_NEAR(c.log_prob, row[c.token] - std::log(sum), 1e-5);
        }
        EXPECT_NEAR(found.eos[static_cast<size_t>(r)], row[eos] - std::log(sum), 1e-5);
      }
    }
  }
}

TEST(TopN, ThreadsAndNeighboursChangeNothing) {
  Rng rng(4);
  constexpr int64_t kRows = 37, kVocabulary = 501;
  std::vector<float> logits(static_cast<size_t>(kRows * kVocabulary));
  for (float& x : logits) x = static_cast<float>(3 * rng.normal());
  const TopNResult one = top_n(logits, kRows, 6, 1, 1), three = top_n(logits, kRows, 6, 1, 3);
  EXPECT_EQ(one.best, three.best);
  EXPECT_EQ(one.eos, three.eos);
  const std::vector<float> last(logits.end() - kVocabulary, logits.end());
  const TopNResult alone = top_n(last, 1, 6, 1);
  EXPECT_TRUE(std::equal(alone.best.begin(), alone.best.end(), one.best.end() - 6));
}

TEST(TopN, RowsWithoutALogSoftmaxAreCounted) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  std::vector<float> logits(5 * 40, 0.5F);
  logits[0 * 40 + 39] = kNaN;
  logits[1 * 40 + 0] = kNaN;
  logits[2 * 40 + 20] = kInf;
  logits[3 * 40 + 20] = -kInf;  // an impossible token is no fault
  const TopNResult found = top_n(logits, 5, 3, 0);
  EXPECT_EQ(found.bad, 3);
  for (size_t r : {0, 1, 2}) {
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(found.best[r * 3 + i].log_prob, -kInf);
  }
  EXPECT_NEAR(found.best[9].log_prob, -std::log(39.0), 1e-6);
  EXPECT_NEAR(found.best[12].log_prob, -std::log(40.0), 1e-6);
}

TEST(TopN, NoNaNIsOverlooked) {
  for (const int64_t n : {4, 100}) {
    for (size_t place = 0; place < 150; ++place) {
      std::vector<float> logits(150);
      for (size_t i = 0; i < 150; ++i) logits[i] = static_cast<float>(i % 7);
      logits[place] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_EQ(top_n(logits, 1, n, 0).bad, 1) << n << " at " << place;
    }
  }
}

}  // namespace
}  // namespace fovea::kernels::top_n_test
