#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/workspace.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/screen_attention.h"
#include "fovea/kernels/attention/cpu/screen_ops.h"
#include "fovea/kernels/attention/testing/kernel_run.h"

namespace fovea::kernels::screen_test {
namespace {

TEST(Screening, FindsTheKthGreatest) {
  Rng rng(3);
  for (const Isa level : runnable_isas()) {
    const AtIsa at(level);
    for (const int64_t count : {1, 2, 15, 16, 17, 33, 100, 700}) {
      for (int kind = 0; kind < 4; ++kind) {
        std::vector<float> values(static_cast<size_t>(count) + 16, 77);
        for (int64_t i = 0; i < count; ++i) {
          const double x = rng.normal();
          values[static_cast<size_t>(i)] = static_cast<float>(kind == 0   ? x
                                                              : kind == 1 ? std::round(x)
                                                              : kind == 2 ? std::exp(40 * x)
                                                              : x > 1     ? INFINITY
                                                                          : -1e-40 * x);
        }
        std::vector<float> sorted(values.begin(), values.begin() + count);
        std::sort(sorted.begin(), sorted.end(), std::greater<>());
        for (const int64_t k : {int64_t{1}, (count + 1) / 2, count}) {
          EXPECT_EQ(screen_ops().kth_greatest(values.data(), count, k), sorted[static_cast<size_t>(k - 1)])
              << name(level) << " count " << count << " k " << k << " kind " << kind;
          const float reached = screen_ops().reached_by(values.data(), count, k, 2);
          EXPECT_GE(std::count_if(sorted.begin(), sorted.end(), [&](float x) { return x >= reached; }), k);
        }
      }
    }
  }
}

TEST(Screening, SearchesEntmaxFromBelow) {
  Rng rng(4);
  for (const Isa level : runnable_isas()) {
    const AtIsa at(level);
    for (const double alpha : {1.001, 1.3, 1.5, 2.0, 2.5, 3.2, 8.0}) {
      const EntmaxPower power(alpha);
      for (const int64_t count : {1, 7, 64, 300}) {
        std::vector<float> values(static_cast<size_t>(count) + 16);
        for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = static_cast<float>(rng.normal());
        const float top = *std::max_element(values.begin(), values.begin() + count);
        const auto mu = [&](float start, float tolerance) {
          return power.mu_of(screen_ops().entmax_root(power, {values.data(), count, top, 1, start, tolerance}));
        };
        const float exact = mu(0, 0), rough = mu(0, 0x1p-7F), slack = 4e-7F * std::max(1.0F, exact);
        const std::string what = cat(name(level), " alpha ", alpha, " count ", count);
        EXPECT_LE(rough, exact + slack) << what;
        EXPECT_GT(rough, exact - 0.05F) << what;
        EXPECT_NEAR(mu(std::max(0.0F, rough - 1e-4F * power.c), 0), exact, slack) << what;
      }
    }
  }
}

// Flat rows, like those of a newly initialised model: from 0 the first steps go far, through weights whose sum falls
// from thousands to 1.
TEST(Screening, SumsFlatRowsToOne) {
  constexpr int64_t kCount = 4096;
  Rng rng(6);
  for (const Isa level : runnable_isas()) {
    const AtIsa at(level);
    for (const double alpha : {1.2, 1.3, 1.4, 1.5, 2.0}) {
      const EntmaxPower power(alpha);
      for (const double deviation : {0.003, 0.01, 0.02, 0.03, 0.05, 0.1, 0.3}) {
        std::vector<float> values(kCount + 16);
        for (int64_t i = 0; i < kCount; ++i)
          values[static_cast<size_t>(i)] = static_cast<float>(deviation * rng.normal());
        const float top = *std::max_element(values.begin(), values.begin() + kCount);
        const EntmaxScores row = {.values = values.data(), .count = kCount, .top = top};
        const float root = screen_ops().entmax_root(power, row);
        screen_ops().entmax_weights(power, row, root, 1);
        const double total = std::accumulate(values.begin(), values.begin() + kCount, 0.0);
        // Weights are summed in four lanes at least.
        EXPECT_NEAR(total, 1, kCount / 4 * 0x1p-24) << name(level) << " alpha " << alpha << " deviation " << deviation;
      }
    }
  }
}

// mu comes nearer to c than float tells: for alpha = 8 and 1,000 scores, its base is 1e-21.
TEST(Screening, WeighsManyEqualScores) {
  for (const Isa level : runnable_isas()) {
    const AtIsa at(level);
    for (const double alpha : {1.5, 2.0, 2.001, 3.14, 8.0, 64.0}) {
      const EntmaxPower power(alpha);
      for (const int64_t count : {2, 1000, 4000}) {
        std::vector<float> values(static_cast<size_t>(count) + 16, 0.5F);
        const EntmaxScores row = {.values = values.data(), .count = count, .top = 0.5F};
        const float root = screen_ops().entmax_root(power, row);
        screen_ops().entmax_weights(power, row, root, screen_ops().entmax_blend(power, row, root));
        const auto keys = static_cast<double>(count);
        const double near = 0x1p-24 * keys + 0x1p-20;  // what adding up takes
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_NEAR(values[static_cast<size_t>(i)] * keys, 1, near)
              << name(level) << " alpha " << alpha << " count " << count;
        }
      }
    }
  }
}

}  // namespace
}  // namespace fovea::kernels::screen_test
