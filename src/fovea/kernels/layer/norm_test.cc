#include "fovea/kernels/layer/norm.h"

#include <sys/mman.h>

#include "fovea/kernels/layer/dropout.h"
#include "fovea/kernels/layer/levels_test.h"

namespace fovea::kernels::norm_test {
namespace {

using testing::at_every_level;
using testing::expect_close;
using testing::normals;
using testing::widened;

constexpr int64_t kRows = 70, kWidth = 37, kCount = kRows * kWidth;  // rows of two pieces, no whole vectors
constexpr int64_t kSeed = 9;
constexpr float kEps = 1e-5F;

enum class Kind : uint8_t { kLayer, kRms };

// A norm of residual + dropout(x), and of x alone where nothing is dropped.
template <class T>
struct NormProblem {
  Kind kind;
  float rate;
  testing::Values<T> x = normals<T>(kCount, 1), residual = normals<T>(kCount, 2), gain = normals<T>(kWidth, 3),
                     bias = normals<T>(kWidth, 4), grad_out = normals<T>(kCount, 5), grad_sum = normals<T>(kCount, 6);

  bool drops() const { return rate > 0; }
  bool centred() const { return kind == Kind::kLayer; }
  DropoutMask mask() const { return {.rate = rate, .seed = kSeed}; }
  double kept_by_dropout(int64_t i, double value) const {
    if (!drops()) return value;
    return element_survives(kSeed, i, dropout_threshold(rate)) ? value / (1 - double{rate}) : 0;
  }
};

template <class T>
struct NormResults {
  std::vector<T> sum = std::vector<T>(kCount), out = sum, grad_residual = sum, grad_x = sum;
  std::vector<T> grad_gain = std::vector<T>(kWidth), grad_bias = grad_gain;
  std::vector<float> mean = std::vector<float>(kRows), rstd = mean;
};

template <class T>
NormResults<T> compute(const NormProblem<T>& p) {
  NormResults<T> to;
  SerialExecutor executor;
  NormForward<T> forward{.x = p.x.kept.data(),
                         .gain = p.gain.kept.data(),
                         .bias = p.bias.kept.data(),
                         .out = to.out.data(),
                         .mean = to.mean.data(),
                         .rstd = to.rstd.data(),
                         .rows = kRows,
                         .width = kWidth,
                         .eps = kEps,
                         .dropout = p.mask()};
  NormBackward<T> backward{.gain = p.gain.kept.data(),
                           .mean = to.mean.data(),
                           .rstd = to.rstd.data(),
                           .grad_out = p.grad_out.kept.data(),
                           .grad_residual = to.grad_residual.data(),
                           .grad_gain = to.grad_gain.data(),
                           .grad_bias = to.grad_bias.data(),
                           .rows = kRows,
                           .width = kWidth,
                           .dropout = p.mask()};
  if (!p.centred()) {
    forward.bias = nullptr, forward.mean = nullptr;
    backward.mean = nullptr, backward.grad_bias = nullptr;
  }
  if (p.drops()) {
    forward.residual = p.residual.kept.data(), forward.sum = to.sum.data();
    backward.grad_sum = p.grad_sum.kept.data(), backward.grad_x = to.grad_x.data();
  } else {
    to.sum = p.x.kept;
  }
  norm_forward(forward, executor);
  backward.sum = to.sum.data();
  norm_backward(backward, executor);
  return to;
}

// The right values of one array, and the magnitudes that went into each number.
struct Expected {
  explicit Expected(int64_t count) : values(static_cast<size_t>(count)), sizes(values) {}
  void add(int64_t i, double value) {
    values[static_cast<size_t>(i)] += value;
    sizes[static_cast<size_t>(i)] += std::abs(value);
  }
  std::vector<double> values, sizes;
};

// The input of the norm as the kernel left it, rounded to T, in double; and what follows from it.
template <class T>
void check_norm(const NormProblem<T>& p, const NormResults<T>& got) {
  Expected sum(kCount), out(kCount), grad_residual(kCount), grad_x(kCount), grad_gain(kWidth), grad_bias(kWidth);
  for (int64_t r = 0; r < kRows; ++r) {
    std::vector<double> row(kWidth), normal(kWidth), inner(kWidth);
    double mean = 0, variance = 0, along_one = 0, along_normal = 0;
    for (int64_t i = 0; i < kWidth; ++i) row[i] = widened(got.sum[r * kWidth + i]);
    for (int64_t i = 0; i < kWidth; ++i) mean += p.centred() ? row[i] / kWidth : 0;
    for (int64_t i = 0; i < kWidth; ++i) variance += (row[i] - mean) * (row[i] - mean) / kWidth;
    const double rstd = 1 / std::sqrt(variance + kEps);
    for (int64_t i = 0; i < kWidth; ++i) {
      const double grad = p.grad_out.exact[r * kWidth + i];
      normal[i] = (row[i] - mean) * rstd;
      inner[i] = grad * p.gain.exact[i];
      along_one += p.centred() ? inner[i] / kWidth : 0;
      along_normal += inner[i] * normal[i] / kWidth;
      grad_gain.add(i, grad * normal[i]);
      if (p.centred()) grad_bias.add(i, grad);
    }
    for (int64_t i = 0; i < kWidth; ++i) {
      const int64_t at = r * kWidth + i;
      if (p.drops()) sum.add(at, p.residual.exact[at]);
      sum.add(at, p.kept_by_dropout(at, p.x.exact[at]));
      out.add(at, normal[i] * p.gain.exact[i]);
      if (p.centred()) out.add(at, p.bias.exact[i]);
      // (inner - mean(inner) - normal mean(inner normal)) / deviation, the derivative of the norm
      for (const double part : {inner[i], -along_one, -normal[i] * along_normal}) grad_residual.add(at, part * rstd);
      if (!p.drops()) continue;
      grad_x.values[at] = p.kept_by_dropout(at, grad_residual.values[at] + p.grad_sum.exact[at]);
      grad_residual.add(at, p.grad_sum.exact[at]);
    }
  }
  // A mean and a deviation of numbers of about 1 come with roundings of their own.
  for (Expected* each : {&out, &grad_residual, &grad_gain, &grad_bias})
    for (double& size : each->sizes) size += 4;
  for (size_t i = 0; i < grad_x.sizes.size(); ++i) grad_x.sizes[i] = grad_residual.sizes[i] / (1 - double{p.rate});
  expect_close(got.sum, sum.values, sum.sizes);
  expect_close(got.out, out.values, out.sizes);
  expect_close(got.grad_residual, grad_residual.values, grad_residual.sizes);
  expect_close(got.grad_gain, grad_gain.values, grad_gain.sizes);
  expect_close(got.grad_bias, grad_bias.values, grad_bias.sizes);
  if (p.drops()) expect_close(got.grad_x, grad_x.values, grad_x.sizes);
}

TEST(NormKernel, IsItsDefinitionWithResidualAndDropout) {
  for (const Kind kind : {Kind::kLayer, Kind::kRms}) {
    for (const float rate : {0.0F, 0.3F}) {
      SCOPED_TRACE(rate);
      const NormProblem<float> in_float{kind, rate};
      const NormProblem<uint16_t> in_bfloat16{kind, rate};
      at_every_level([&] {
        check_norm(in_float, compute(in_float));
        check_norm(in_bfloat16, compute(in_bfloat16));
      });
    }
  }
}

// Zeros, of which only the pages that are written take memory.
template <class T>
class SparseArray {
 public:
  explicit SparseArray(int64_t count) : bytes_(static_cast<size_t>(count) * sizeof(T)) {
    void* pages = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages != MAP_FAILED) data_ = static_cast<T*>(pages);
  }
  ~SparseArray() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  SparseArray(const SparseArray&) = delete;
  SparseArray& operator=(const SparseArray&) = delete;
  T* data() const { return data_; }

 private:
  size_t bytes_;
  T* data_ = nullptr;
};

class LastPieceExecutor final : public Executor {
 public:
  int num_threads() const override { return 1; }
  void run(int64_t count, const std::function<void(int64_t, int)>& work) override { work(count - 1, 0); }
};

// The key changes where the counter passes 2^32, here in the middle of a vector of any level: the row that holds
// element 2^32 begins 7 elements before it.
TEST(NormKernel, DrawsWhatTheDefinitionDrawsWhereTheKeyChanges) {
  constexpr int64_t kEdge = int64_t{1} << 32, kBegin = kEdge / kWidth * kWidth, kAll = kEdge / kWidth + 2;
  static_assert(kEdge - kBegin == 7);
  constexpr float kRate = 0.4F;
  using Bits = uint16_t;
  const Bits one = testing::narrowed<Bits>(1);
  const SparseArray<Bits> x(kAll * kWidth), sum(kAll * kWidth), out(kAll * kWidth);
  const SparseArray<float> mean(kAll), rstd(kAll);
  for (const void* data : {static_cast<void*>(x.data()), static_cast<void*>(sum.data()), static_cast<void*>(out.data()),
                           static_cast<void*>(mean.data()), static_cast<void*>(rstd.data())}) {
    if (data == nullptr) GTEST_SKIP() << "no address space for 2^32 elements";
  }
  std::fill(x.data() + kBegin, x.data() + kAll * kWidth, one);
  const std::vector<Bits> ones(kWidth, one);
  at_every_level([&] {
    std::fill(sum.data() + kBegin, sum.data() + kAll * kWidth, Bits{0});
    LastPieceExecutor executor;
    norm_forward(NormForward<Bits>{.x = x.data(),
                                   .gain = ones.data(),
                                   .bias = ones.data(),
                                   .sum = sum.data(),
                                   .out = out.data(),
                                   .mean = mean.data(),
                                   .rstd = rstd.data(),
                                   .rows = kAll,
                                   .width = kWidth,
                                   .eps = kEps,
                                   .dropout = {.rate = kRate, .seed = kSeed}},
                 executor);
    for (int64_t i = kBegin; i < kAll * kWidth; ++i) {
      EXPECT_EQ(sum.data()[i] != 0, element_survives(kSeed, i, dropout_threshold(kRate))) << "2^32 + " << i - kEdge;
    }
  });
}

}  // namespace
}  // namespace fovea::kernels::norm_test
