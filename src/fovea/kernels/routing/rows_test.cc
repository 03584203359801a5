#include "fovea/kernels/routing/rows.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/kernels/simd/isa.h"

// Each pass against its definition in double, at every level, for widths of whole vectors and others.
namespace fovea::kernels::rows_test {
namespace {

constexpr int64_t kTokens = 260, kHeads = 3, kClusters = 4;  // more rows than one task takes
constexpr double kEps = 1e-6;

double number(double x) { return x; }
double number(float x) { return static_cast<double>(x); }
double number(uint16_t x) { return static_cast<double>(std::bit_cast<float>(uint32_t{x} << 16)); }
// Rounds to the type; to bfloat16 by cutting, for inputs alone.
template <class T>
T made(double x) {
  if constexpr (std::is_same_v<T, uint16_t>) {
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(x)) >> 16);
  } else {
    return static_cast<T>(x);
  }
}
// The rounding of a result of the type that sums some numbers near 1.
template <class T>
double tolerance() {
  return std::is_same_v<T, double> ? 1e-13 : std::is_same_v<T, float> ? 1e-5 : 0.02;
}

template <class T>
std::vector<T> noise(int64_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<T> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(made<T>(rng.normal()));
  return out;
}

// Rows with no member, one and several, and a view with strides of its own.
template <class T>
struct Problem {
  explicit Problem(int64_t its_width) : width(its_width), x(noise<T>(kTokens * kHeads * (width + 2), 1)) {
    Rng rng(2);
    for (int64_t i = 0; i < 1200; ++i)
      rows.push_back(static_cast<int32_t>(rng.below(static_cast<uint64_t>(kTokens * kHeads))));
    places = kernels::places_of(rows, kTokens * kHeads);
  }
  // Head by head: [H, T, D + 2].
  TokenRows<T> view() const { return {x.data() + 1, width + 2, kTokens * (width + 2), kTokens, kHeads, width}; }
  double of(int64_t token, int64_t head, int64_t i) const {
    return number(x[static_cast<size_t>((head * kTokens + token) * (width + 2) + 1 + i)]);
  }
  RowMembers members(bool averages) const { return {rows, places.starts, places.places, averages}; }
  double factor(int64_t row, bool averages) const {
    const auto at = static_cast<size_t>(row);
    return averages ? 1 / (places.starts[at + 1] - places.starts[at] + 0.01) : 1.0;
  }
  int64_t width;
  std::vector<T> x;
  std::vector<int32_t> rows;
  RowPlaces places;
};

template <class Work>
void at_all_levels(const Work& work) {
  for (const Isa level : runnable_isas()) {
    SCOPED_TRACE(name(level));
    set_isa(level);
    for (const int64_t width : {1, 6, 16, 64, 67}) {
      SCOPED_TRACE(width);
      work(width);
    }
  }
  set_isa(best_isa());
}

template <class T>
void expect_moves(int64_t width) {
  const Problem<T> problem(width);
  const std::vector<T> y = noise<T>(std::ssize(problem.rows) * width, 3);
  for (const bool averages : {false, true}) {
    std::vector<T> members(y.size()), sums(static_cast<size_t>(kTokens * kHeads * width), made<T>(7));
    ThreadExecutor threads(3);
    gather_rows(problem.view(), problem.members(averages), members.data(), threads);
    sum_rows(y.data(), problem.members(averages), problem.view(), sums.data(), threads);
    std::vector<double> right(sums.size());
    for (int64_t p = 0; p < std::ssize(problem.rows); ++p) {
      const int64_t row = problem.rows[static_cast<size_t>(p)];
      const double factor = problem.factor(row, averages);
      for (int64_t i = 0; i < width; ++i) {
        ASSERT_NEAR(number(members[static_cast<size_t>(p * width + i)]),
                    problem.of(row / kHeads, row % kHeads, i) * factor, tolerance<T>());
        right[static_cast<size_t>(row * width + i)] += number(y[static_cast<size_t>(p * width + i)]) * factor;
      }
    }
    for (size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(number(sums[i]), right[i], 5 * tolerance<T>());
  }
}

TEST(RoutedRows, MoveToTheMembersAndBack) {
  at_all_levels([](int64_t width) {
    expect_moves<float>(width);
    expect_moves<double>(width);
    expect_moves<uint16_t>(width);
  });
}

// The vectors of the tokens that count, and what they are near.
struct Nearness {
  std::vector<int32_t> nearest;
  std::vector<TokenRange> ranges = {{0, 100}, {150, 90}};
  std::vector<uint8_t> counted = std::vector<uint8_t>(kTokens);
  Nearness() {
    Rng rng(4);
    for (int64_t i = 0; i < kHeads * kTokens; ++i) nearest.push_back(static_cast<int32_t>(rng.below(kClusters)));
    for (const TokenRange& range : ranges) std::fill_n(counted.begin() + range.begin, range.length, uint8_t{1});
  }
  NearestClusters clusters() const { return {nearest, kHeads, kClusters}; }
};

// The gradient of sum(cotangent * vector) by its formula, from two-pass statistics in double.
template <class T, class Wide>
void expect_gradient(int64_t width, int rows_given, double distance) {
  const Problem<T> problem(width);
  const Nearness near;
  const std::vector<T> first = noise<T>(std::ssize(problem.rows) * width, 5),
                       second = noise<T>(std::ssize(problem.rows) * width, 6);
  const std::vector<Wide> centroids = noise<Wide>(kHeads * kClusters * width, 7);
  std::vector<T> out(static_cast<size_t>(kTokens * kHeads * width), made<T>(7));
  EntryGradient<T, Wide> job{.x = problem.view(), .members = problem.members(false), .eps = kEps, .out = out.data()};
  job.first = rows_given > 0 ? first.data() : nullptr;
  job.second = rows_given > 1 ? second.data() : nullptr;
  job.distance = distance, job.centroids = centroids.data();
  job.nearest = near.clusters(), job.counted = near.counted;
  ThreadExecutor threads(3);
  write_gradient(job, threads);
  for (int64_t row = 0; row < kTokens * kHeads; ++row) {
    const int64_t token = row / kHeads, head = row % kHeads;
    double mean = 0, variance = 0, level = 0, along = 0;
    for (int64_t i = 0; i < width; ++i) mean += problem.of(token, head, i) / static_cast<double>(width);
    for (int64_t i = 0; i < width; ++i)
      variance += std::pow(problem.of(token, head, i) - mean, 2) / static_cast<double>(width);
    const double rstd = 1 / std::sqrt(variance + kEps);
    std::vector<double> vector, grad(static_cast<size_t>(width));
    for (int64_t i = 0; i < width; ++i) vector.push_back((problem.of(token, head, i) - mean) * rstd);
    const auto at = static_cast<size_t>(row);
    for (int32_t m = problem.places.starts[at]; m < problem.places.starts[at + 1]; ++m) {
      const auto place = static_cast<size_t>(problem.places.places[static_cast<size_t>(m)] * width);
      for (size_t i = 0; i < grad.size(); ++i) {
        grad[i] += rows_given > 0 ? number(first[place + i]) : 0;
        grad[i] += rows_given > 1 ? number(second[place + i]) : 0;
      }
    }
    if (near.counted[static_cast<size_t>(token)] != 0) {
      const int64_t cluster = head * kClusters + near.nearest[static_cast<size_t>(head * kTokens + token)];
      for (size_t i = 0; i < grad.size(); ++i)
        grad[i] += distance * (vector[i] - number(centroids[static_cast<size_t>(cluster * width) + i]));
    }
    for (size_t i = 0; i < grad.size(); ++i) {
      level += grad[i] / static_cast<double>(width);
      along += grad[i] * vector[i] / static_cast<double>(width);
    }
    for (size_t i = 0; i < grad.size(); ++i) {
      // If a row is one number, its vector is zero and 1 / deviation 1,000.
      const double right = rstd * (grad[i] - level - vector[i] * along), bound = width == 1 ? 1000 : 20;
      ASSERT_NEAR(number(out[static_cast<size_t>(row * width) + i]), right, tolerance<T>() * (bound + std::abs(right)))
          << "row " << row;
    }
  }
}

// The vectors differ from those of a norm of another library in their last places.
template <class T>
void expect_vectors(int64_t width) {
  const Problem<T> problem(width);
  std::vector<T> out(static_cast<size_t>(kTokens * kHeads * width), made<T>(7));
  ThreadExecutor threads(3);
  normalise_rows(problem.view(), kEps, out.data(), threads);
  for (int64_t row = 0; row < kTokens * kHeads; ++row) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < width; ++i) mean += problem.of(row / kHeads, row % kHeads, i) / static_cast<double>(width);
    for (int64_t i = 0; i < width; ++i)
      variance += std::pow(problem.of(row / kHeads, row % kHeads, i) - mean, 2) / static_cast<double>(width);
    for (int64_t i = 0; i < width; ++i) {
      ASSERT_NEAR(number(out[static_cast<size_t>(row * width + i)]),
                  (problem.of(row / kHeads, row % kHeads, i) - mean) / std::sqrt(variance + kEps), tolerance<T>());
    }
  }
}

TEST(RoutedRows, AreNormalised) {
  at_all_levels([](int64_t width) {
    expect_vectors<float>(width);
    expect_vectors<double>(width);
    expect_vectors<uint16_t>(width);
  });
}

TEST(RoutedRows, HaveTheGradientOfTheirVectors) {
  at_all_levels([](int64_t width) {
    for (const int rows_given : {0, 1, 2}) {
      for (const double distance : {0.0, 0.3}) {
        expect_gradient<float, float>(width, rows_given, distance);
        expect_gradient<double, double>(width, rows_given, distance);
        expect_gradient<uint16_t, float>(width, rows_given, distance);
      }
    }
  });
}

// Padding may hold anything; no gradient reaches it.
TEST(RoutedRows, ThatNothingReachesGetZeros) {
  at_all_levels([](int64_t width) {
    Problem<float> problem(width);
    std::fill(problem.x.begin(), problem.x.end(), std::numeric_limits<float>::quiet_NaN());
    problem.rows = {5};
    problem.places = places_of(problem.rows, kTokens * kHeads);
    const std::vector<float> first(static_cast<size_t>(width), 1.0F);
    std::vector<float> out(static_cast<size_t>(kTokens * kHeads * width), 7.0F);
    SerialExecutor serial;
    write_gradient(
        {.x = problem.view(), .members = problem.members(false), .first = first.data(), .eps = kEps, .out = out.data()},
        serial);
    for (int64_t i = 0; i < std::ssize(out); ++i) {
      const float one = out[static_cast<size_t>(i)];
      ASSERT_TRUE(i / width == 5 ? std::isnan(one) : one == 0.0F);
    }
  });
}

template <class T>
void expect_measures(int64_t width) {
  const Problem<T> problem(width);
  const Nearness near;
  const std::vector<T> centroids = noise<T>(kHeads * kClusters * width, 7);
  std::vector<double> counts(kHeads * kClusters), sums(static_cast<size_t>(kHeads * kClusters * width)),
      squares(kHeads);
  ThreadExecutor threads(3);
  measure_clusters({.vectors = problem.view(),
                    .nearest = near.clusters(),
                    .sequences = near.ranges,
                    .centroids = centroids.data(),
                    .counts = counts,
                    .sums = sums,
                    .squares = squares},
                   threads);
  std::vector<double> right_counts(counts.size()), right_sums(sums.size()), right_squares(kHeads);
  for (const TokenRange& range : near.ranges) {
    for (int64_t t = range.begin; t < range.begin + range.length; ++t) {
      for (int64_t head = 0; head < kHeads; ++head) {
        const int64_t cluster = head * kClusters + near.nearest[static_cast<size_t>(head * kTokens + t)];
        right_counts[static_cast<size_t>(cluster)] += 1;
        for (int64_t i = 0; i < width; ++i) {
          const double x = problem.of(t, head, i);
          right_sums[static_cast<size_t>(cluster * width + i)] += x;
          right_squares[static_cast<size_t>(head)] +=
              std::pow(x - number(centroids[static_cast<size_t>(cluster * width + i)]), 2);
        }
      }
    }
  }
  EXPECT_EQ(counts, right_counts);
  EXPECT_EQ(sums, right_sums);  // in the order of the tokens
  // A row's squares are summed in its type, rows in double.
  for (size_t head = 0; head < kHeads; ++head)
    EXPECT_NEAR(squares[head], right_squares[head], right_squares[head] * (std::is_same_v<T, double> ? 1e-14 : 1e-6));
}

TEST(RoutedRows, AreMeasuredByTheirNearestCentroids) {
  at_all_levels([](int64_t width) {
    expect_measures<float>(width);
    expect_measures<double>(width);
  });
}

}  // namespace
}  // namespace fovea::kernels::rows_test
