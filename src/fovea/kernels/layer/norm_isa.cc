#include "fovea/kernels/layer/norm.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fovea/kernels/layer/at_level.h"
#include "fovea/kernels/layer/dropout.h"
#include "fovea/kernels/layer/scratch.h"
// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/layer/mask-inl.h"
#include "fovea/kernels/layer/norm-inl.h"

namespace fovea::kernels {
namespace {

constexpr int64_t kElements = 1 << 14;  // of a piece of an elementwise pass

enum class NormKind : uint8_t { kLayer, kRms };

// out, mean and rstd of row r; `row` is the input of the norm.
template <NormKind kKind, class T>
void normalise_row(const NormForward<T>& job, int64_t r, const float* row) {
  const int64_t width = job.width, begin = r * width;
  if constexpr (kKind == NormKind::kRms) {
    const float rstd = inverse_deviation(row, width, 0, job.eps);
    job.rstd[r] = rstd;
    for (int64_t i = 0; i < width; i += kLanes) {
      store_some(job.out + begin + i, load(row + i) * set(rstd) * load_some(job.gain + i, width - i), width - i);
    }
  } else {
    const Statistics is = statistics(row, width, job.eps);
    job.mean[r] = is.mean;
    job.rstd[r] = is.rstd;
    for (int64_t i = 0; i < width; i += kLanes) {
      const F normal = (load(row + i) - set(is.mean)) * set(is.rstd);
      const F gain = load_some(job.gain + i, width - i), bias = load_some(job.bias + i, width - i);
      store_some(job.out + begin + i, fma(normal, gain, bias), width - i);
    }
  }
}

// `row`: a scratch [padded width].
template <NormKind kKind, class T>
void forward_row(const NormForward<T>& job, int64_t r, Mask& mask, float* row) {
  const int64_t width = job.width, begin = r * width;
  for (int64_t i = 0; i < width; i += kLanes) {
    F value = mask.apply(load_some(job.x + begin + i, width - i), begin + i);
    if (job.residual != nullptr) value = value + load_some(job.residual + begin + i, width - i);
    if (job.sum != nullptr) {
      // The sum is normalised as backward and the next layer see it, rounding included.
      store_some(job.sum + begin + i, value, width - i);
      if constexpr (sizeof(T) == 2) value = load_some(job.sum + begin + i, width - i);
    }
    store(row + i, value);
  }
  normalise_row<kKind>(job, r, row);
}

template <NormKind kKind, class T>
void forward(const NormForward<T>& job, Executor& executor) {
  executor.run(pieces_of_rows(job.rows), [&](int64_t piece, int) {
    Mask mask(job.dropout);
    float* row = thread_scratch(Use::kLeft).get<float>(padded(job.width));
    for_rows(piece, job.rows, [&](int64_t r) { forward_row<kKind>(job, r, mask, row); });
  });
}

// grad_gain of the piece's rows is added to gain_sums [padded width]; layer norm: grad_bias to what follows these.
template <NormKind kKind, class T>
void backward_row(const NormBackward<T>& job, int64_t r, Mask& mask, float* gain_sums) {
  constexpr bool kCentred = kKind == NormKind::kLayer;
  const int64_t width = job.width, begin = r * width;
  const F mean = set(kCentred ? job.mean[r] : 0), rstd = set(job.rstd[r]);
  const auto normal_at = [&](int64_t i) {
    const F input = load_some(job.sum + begin + i, width - i);
    return kCentred ? (input - mean) * rstd : input * rstd;
  };
  float* bias_sums = gain_sums + padded(width);
  F along_one = set(0), along_normal = set(0);
  for (int64_t i = 0; i < width; i += kLanes) {
    const F grad = load_some(job.grad_out + begin + i, width - i);
    const F normal = only(normal_at(i), width - i);
    const F inner = grad * load_some(job.gain + i, width - i);
    if constexpr (kCentred) along_one = along_one + inner;
    along_normal = fma(inner, normal, along_normal);
    store(gain_sums + i, fma(grad, normal, load(gain_sums + i)));
    if constexpr (kCentred) store(bias_sums + i, load(bias_sums + i) + grad);
  }
  const F one = set(sum(along_one) / static_cast<float>(width)),
          part = set(sum(along_normal) / static_cast<float>(width));
  for (int64_t i = 0; i < width; i += kLanes) {
    const int64_t n = width - i;
    const F inner = load_some(job.grad_out + begin + i, n) * load_some(job.gain + i, n);
    F grad = fnma(normal_at(i), part, kCentred ? inner - one : inner) * rstd;
    if (job.grad_sum != nullptr) grad = grad + load_some(job.grad_sum + begin + i, n);
    store_some(job.grad_residual + begin + i, grad, n);
    if (job.grad_x != nullptr) store_some(job.grad_x + begin + i, mask.apply(grad, begin + i), n);
  }
}

template <NormKind kKind, class T>
void backward(const NormBackward<T>& job, Executor& executor) {
  constexpr int64_t kSums = kKind == NormKind::kLayer ? 2 : 1;
  const int64_t width = padded(job.width);
  const float* sums = sum_of_pieces(job.rows, kSums * width, executor, [&](int64_t piece, float* part) {
    Mask mask(job.dropout);
    for_rows(piece, job.rows, [&](int64_t r) { backward_row<kKind>(job, r, mask, part); });
  });
  write_sums(sums, job.grad_gain, job.width);
  if constexpr (kKind == NormKind::kLayer) write_sums(sums + width, job.grad_bias, job.width);
}

template <class T>
void run_job(const NormForward<T>& job, Executor& executor) {
  if (job.mean == nullptr) return forward<NormKind::kRms>(job, executor);
  forward<NormKind::kLayer>(job, executor);
}
template <class T>
void run_job(const NormBackward<T>& job, Executor& executor) {
  if (job.mean == nullptr) return backward<NormKind::kRms>(job, executor);
  backward<NormKind::kLayer>(job, executor);
}

template <class T>
void drop_piece(const DropoutPass<T>& job, int64_t begin) {
  Mask mask(job.dropout);
  const int64_t end = std::min(begin + kElements, job.count);
  for (int64_t i = begin; i < end; i += kLanes) {
    store_some(job.out + i, mask.apply(load_some(job.x + i, end - i), i), end - i);
  }
}

template <class T>
void run_job(const DropoutPass<T>& job, Executor& executor) {
  executor.run((job.count + kElements - 1) / kElements, [&](int64_t p, int) { drop_piece(job, p * kElements); });
}

}  // namespace

template <Isa kLevel, class... Job>
void AtLevel<kLevel, Job...>::run(const Job&... job, Executor& executor) {
  run_job(job..., executor);
}
template struct AtLevel<kThisIsa, NormForward<float>>;
template struct AtLevel<kThisIsa, NormForward<uint16_t>>;
template struct AtLevel<kThisIsa, NormBackward<float>>;
template struct AtLevel<kThisIsa, NormBackward<uint16_t>>;
template struct AtLevel<kThisIsa, DropoutPass<float>>;
template struct AtLevel<kThisIsa, DropoutPass<uint16_t>>;

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
