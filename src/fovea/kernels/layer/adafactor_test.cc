#include "fovea/kernels/layer/adafactor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>

#include "fovea/kernels/layer/levels_test.h"
#include "fovea/kernels/layer/reduce.h"

namespace fovea::kernels::adafactor_test {
namespace {
using namespace testing;

// A parameter with its state, in float or in double.
template <class T>
struct Parameter {
  int64_t matrices, rows, columns;
  bool has_rows;
  std::vector<T> params, grads, row, column;

  Parameter(int64_t b, int64_t n, int64_t m, uint64_t seed) : matrices(b), rows(n), columns(m), has_rows(n > 1) {
    for (const float x : normals<float>(b * n * m, seed).kept) params.push_back(x);
    for (const float x : normals<float>(b * n * m, seed + 1).kept) grads.push_back(x);
    for (const float x : normals<float>(b * n, seed + 2).kept) row.push_back(x * x);
    for (const float x : normals<float>(b * m, seed + 3).kept) column.push_back(x * x);
  }
};

struct Setting {
  double fresh = 0.4, decay = 0.01, rate = 0.1, clip = 1, grad_scale = 3;
  bool relative = false;
};

// The definition in adafactor.h.
void by_definition(Parameter<double>& p, const Setting& setting) {
  std::vector<double> u;
  double u_squares = 0, x_squares = 0;
  for (const double x : p.params) x_squares += x * x;
  for (int64_t b = 0; b < p.matrices; ++b) {
    const auto g = [&](int64_t i, int64_t j) { return setting.grad_scale * p.grads[(b * p.rows + i) * p.columns + j]; };
    double* row = p.row.data() + b * p.rows;
    double* column = p.column.data() + b * p.columns;
    double total = 0;
    for (int64_t i = 0; i < p.rows; ++i) {
      double mean = 0;
      for (int64_t j = 0; j < p.columns; ++j) mean += g(i, j) * g(i, j) / static_cast<double>(p.columns);
      row[i] = (1 - setting.fresh) * row[i] + setting.fresh * (mean + 1e-30);
      total += row[i] / static_cast<double>(p.rows);
    }
    for (int64_t j = 0; j < p.columns; ++j) {
      double mean = 0;
      for (int64_t i = 0; i < p.rows; ++i) mean += g(i, j) * g(i, j) / static_cast<double>(p.rows);
      column[j] = (1 - setting.fresh) * column[j] + setting.fresh * (mean + 1e-30);
    }
    for (int64_t i = 0; i < p.rows; ++i) {
      for (int64_t j = 0; j < p.columns; ++j) {
        const double v = p.has_rows ? row[i] * column[j] / total : column[j];
        u.push_back(g(i, j) / std::sqrt(v));
        u_squares += u.back() * u.back();
      }
    }
  }
  const auto count = static_cast<double>(u.size());
  double rate = setting.rate;
  if (setting.relative) rate *= std::max(1e-3, std::sqrt(x_squares / count));
  if (setting.clip > 0) rate /= std::max(1.0, std::sqrt(u_squares / count) / setting.clip);
  for (size_t i = 0; i < u.size(); ++i) p.params[i] = (1 - setting.decay) * p.params[i] - rate * u[i];
}

AdafactorTensor tensor_of(Parameter<float>& p, std::vector<uint16_t>& copy) {
  copy.resize(p.params.size());
  return {.params = p.params.data(),
          .grads = p.grads.data(),
          .copy = copy.data(),
          .row = p.has_rows ? p.row.data() : nullptr,
          .column = p.column.data(),
          .matrices = p.matrices,
          .rows = p.rows,
          .columns = p.columns};
}

void run(std::vector<Parameter<float>>& parameters, std::vector<std::vector<uint16_t>>& copies, const Setting& setting,
         Executor& executor) {
  std::vector<AdafactorTensor> tensors;
  copies.resize(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) tensors.push_back(tensor_of(parameters[i], copies[i]));
  AdafactorPass job{.tensors = tensors};
  job.grad_scale = static_cast<float>(setting.grad_scale);
  job.fresh = static_cast<float>(setting.fresh);
  job.decay = static_cast<float>(setting.decay);
  job.rate = setting.rate;
  job.relative = setting.relative;
  job.clip = setting.clip;
  adafactor(job, executor);
}

// Odd sizes; several pieces of rows; rows longer than a piece; vectors and a scalar.
template <class T>
std::vector<Parameter<T>> parameters() {
  std::vector<Parameter<T>> all;
  uint64_t seed = 10;
  for (const auto& [b, n, m] :
       {std::array<int64_t, 3>{1, 33, 17}, {3, 5, 7}, {1, 1, 101}, {1, 1, 1}, {1, 700, 3}, {2, 600, 61}, {1, 35, 5003}})
    all.emplace_back(b, n, m, seed += 10);
  return all;
}

TEST(AdafactorKernel, AgreesWithTheDefinitionAtEveryLevel) {
  at_every_level([] {
    for (const Setting& setting :
         {Setting{}, Setting{.clip = 0, .relative = true}, Setting{.fresh = 1, .clip = 0.3}, Setting{.rate = 0}}) {
      std::vector<Parameter<float>> ours = parameters<float>();
      std::vector<Parameter<double>> truth = parameters<double>();
      std::vector<std::vector<uint16_t>> copies;
      SerialExecutor executor;
      run(ours, copies, setting, executor);
      for (size_t p = 0; p < ours.size(); ++p) {
        by_definition(truth[p], setting);
        // Sums of up to 5,003 squares in lanes of float32: of some hundred roundings of 2^-24 each. Updates are below
        // 20, and the rate is 0.1; weights below 6 are rounded.
        for (size_t i = 0; i < ours[p].params.size(); ++i) {
          ASSERT_NEAR(ours[p].params[i], truth[p].params[i], 1e-5) << p << ", element " << i;
          ASSERT_NEAR(widened(copies[p][i]), ours[p].params[i], std::abs(ours[p].params[i]) * 0x1p-8);
        }
        for (size_t i = 0; ours[p].has_rows && i < ours[p].row.size(); ++i)
          ASSERT_NEAR(ours[p].row[i], truth[p].row[i], 1e-5 * truth[p].row[i]) << p << ", row " << i;
        for (size_t i = 0; i < ours[p].column.size(); ++i)
          ASSERT_NEAR(ours[p].column[i], truth[p].column[i], 1e-5 * truth[p].column[i]) << p << ", column " << i;
      }
    }
  });
}

TEST(AdafactorKernel, IsTheSameForEveryNumberOfThreads) {
  const auto trained = [](Executor& executor) {
    std::vector<Parameter<float>> ours = parameters<float>();
    std::vector<std::vector<uint16_t>> copies;
    for (int i = 0; i < 3; ++i) run(ours, copies, {.relative = true}, executor);
    std::vector<float> all;
    for (const Parameter<float>& p : ours) all.insert(all.end(), p.params.begin(), p.params.end());
    return all;
  };
  SerialExecutor one;
  ThreadExecutor three(3);
  EXPECT_EQ(trained(one), trained(three));
}

// A gradient of zero, as in the rows of an embedding that no token of a run has used, changes nothing.
TEST(AdafactorKernel, LeavesWeightsWithoutAGradient) {
  at_every_level([] {
    std::vector<Parameter<float>> one = {{1, 5, 9, 1}};
    Parameter<float>& p = one[0];
    std::fill(p.row.begin(), p.row.end(), 0.0F);
    std::fill(p.column.begin(), p.column.end(), 0.0F);
    std::fill(p.grads.begin(), p.grads.end(), 0.0F);
    p.grads[3] = 1e-25F;
    const std::vector<float> before = p.params;
    std::vector<std::vector<uint16_t>> copies;
    SerialExecutor executor;
    run(one, copies, {.fresh = 1, .decay = 0}, executor);
    EXPECT_EQ(p.params, before);  // 1e-25 is far below eps1's root, 1e-15
  });
}

TEST(SumsOfSquares, AreEachPartsOwn) {
  const auto values = normals<float>(100001, 1);
  const std::span<const float> all(values.kept);
  const std::vector<std::span<const float>> parts = {all.first(70001), all.subspan(70001, 1), {}, all.subspan(70002)};
  ThreadExecutor executor(3);
  const std::vector<double> sums = sums_of_squares(parts, executor);
  for (size_t i = 0; i < parts.size(); ++i)
    EXPECT_EQ(sums[i], sum_of_squares(parts[i].data(), std::ssize(parts[i]), executor)) << i;
}

}  // namespace
}  // namespace fovea::kernels::adafactor_test
