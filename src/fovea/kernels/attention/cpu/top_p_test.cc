#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/testing/kernel_run.h"

// The selection top-p in rows of any length: with a query of 1 and one number a key, scores are the keys, to the bit.
namespace fovea::kernels::top_p_test {
namespace {

using testing_suite::Array;
using testing_suite::Layout;
using Doubles = std::vector<double>;

enum class Scores : uint8_t { kNormal, kWholeNumbers, kWide, kEqual, kInfinite };

Doubles draw(Scores kind, size_t count, Rng& rng) {
  Doubles out(count);
  for (double& x : out) {
    const double z = rng.normal();
    x = kind == Scores::kNormal         ? z
        : kind == Scores::kWholeNumbers ? std::round(z)
        : kind == Scores::kWide         ? 1e4 * z
        : kind == Scores::kEqual        ? 0.25
        : z > 1                         ? INFINITY
                                        : z;
    x = static_cast<float>(x);
  }
  return out;
}

// The values of the keys from the threshold on, 0, 1, ... 6, 0, ..., by softmax's weights.
double mean_of_selected(const Doubles& scores, double threshold) {
  const double top = *std::ranges::max_element(scores);
  double sum = 0, total = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] < threshold) continue;
    const double weight = std::exp(scores[i] - top);
    sum += weight * static_cast<double>(i % 7), total += weight;
  }
  return sum / total;
}

// The weights of the best keys sum to p of all within what sums of floats may be wrong.
bool is_doubtful(const Doubles& sorted, double p) {
  double total = 0, sum = 0;
  for (const double x : sorted) total += std::exp(x - sorted[0]);
  for (const double x : sorted) {
    sum += std::exp(x - sorted[0]);
    if (std::abs(sum / total - p) < 2e-6) return true;
  }
  return false;
}

double out_of(const Doubles& scores, double p) {
  AttentionProblem problem;
  problem.spec = parse_attention(cat("top-p(", p, ")"));
  problem.kind = AttentionKind::kCross;
  problem.head_dim = 1;
  const auto keys = std::ssize(scores);
  problem.sequences = {{0, 1, 0, keys}};
  testing_suite::Inputs in;
  in.q = Array(DType::kFloat32, Layout::kPacked, 1, 1, 1), in.grad_out = in.q;
  in.q.set(0, 0, 0, 1);
  in.k = Array(DType::kFloat32, Layout::kPacked, keys, 1, 1), in.v = in.k;
  for (int64_t i = 0; i < keys; ++i) {
    in.k.set(i, 0, 0, scores[static_cast<size_t>(i)]);
    in.v.set(i, 0, 0, static_cast<double>(i % 7));
  }
  in.alpha = {1};
  SerialExecutor serial;
  return testing_suite::run_kernel(kRowsKernel, problem, in, Layout::kPacked, serial).out.get(0, 0, 0);
}

TEST(TopP, SelectsTheFewestKeysThatHavePOfTheWeight) {
  Rng rng(11);
  int checked = 0;
  for (const Isa level : runnable_isas()) {
    const AtIsa at(level);
    for (const size_t count : {1, 2, 7, 31, 32, 33, 65, 500, 5000}) {
      for (const Scores kind : {Scores::kNormal, Scores::kWholeNumbers, Scores::kWide, Scores::kEqual}) {
        for (const double p : {1e-6, 0.2, 0.5, 0.9, 0.999}) {
          const Doubles scores = draw(kind, count, rng);
          Doubles sorted = scores;
          std::ranges::sort(sorted, std::greater<>());
          if (is_doubtful(sorted, p)) continue;
          ++checked;
          const double threshold = TopP{p}.threshold(std::span<const double>(sorted));
          // Sums of floats, of up to 5,000 terms by eight lanes, and values of up to 6.
          EXPECT_NEAR(out_of(scores, p), mean_of_selected(scores, threshold), 2e-4)
              << name(level) << " keys " << count << " kind " << static_cast<int>(kind) << " p " << p;
        }
      }
    }
  }
  EXPECT_GE(checked, 100 * std::ssize(runnable_isas()));
}

// Infinite scores have all of the weight, which is NaN as in dense attention, and no key is lost in silence.
TEST(TopP, KeepsWhatIsNotFinite) {
  Rng rng(12);
  for (const Isa level : runnable_isas()) {
    const AtIsa at(level);
    for (const double p : {0.2, 0.9}) {
      EXPECT_TRUE(std::isnan(out_of(draw(Scores::kInfinite, 100, rng), p)));
      Doubles with_nan = draw(Scores::kNormal, 100, rng);
      with_nan[60] = NAN;
      EXPECT_TRUE(std::isnan(out_of(with_nan, p)));
    }
  }
}

}  // namespace
}  // namespace fovea::kernels::top_p_test
