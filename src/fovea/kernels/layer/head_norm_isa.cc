#include "fovea/kernels/layer/head_norm.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fovea/kernels/layer/at_level.h"
#include "fovea/kernels/layer/scratch.h"
// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/layer/norm-inl.h"
#include "fovea/kernels/simd/math-inl.h"

namespace fovea::kernels {
namespace {

// `row`: a scratch [padded width].
template <class T>
void forward_row(const HeadNorm<T>& job, T* y, int64_t r, float* row) {
  const int64_t width = job.width, begin = r * width;
  for (int64_t i = 0; i < width; i += kLanes) store(row + i, load_some(job.z + begin + i, width - i));
  const Statistics is = job.around == Centre::kMean ? statistics(row, width, job.eps)
                                                    : Statistics{0, inverse_deviation(row, width, 0, job.eps)};
  job.centre[r] = is.mean;
  job.rstd[r] = is.rstd;
  for (int64_t i = 0; i < width; i += kLanes) {
    const int64_t n = width - i;
    const F z = load(row + i);
    F out = (z - set(is.mean)) * set(is.rstd) * load_some(job.gain + i, n);
    if (job.bias != nullptr) out = out + load_some(job.bias + i, n);
    if (job.gate != nullptr) out = out * sigmoid(z * load_some(job.gate + i, n));
    store_some(y + begin + i, out, n);
  }
}

// The contributions of one vector of a row to the gradients.
struct Parts {
  F normal, inner, gain, gate, bias, through_gate;  // inner: of `normal`; through_gate: of z by way of the sigmoid
};

template <class T>
Parts parts_of(const HeadNorm<T>& job, const HeadNormGrads<T>& grads, int64_t r, int64_t i) {
  const int64_t n = job.width - i, at = r * job.width + i;
  const F z = load_some(job.z + at, n), grad = load_some(grads.grad_y + at, n), gain = load_some(job.gain + i, n);
  const F normal = only((z - set(job.centre[r])) * set(job.rstd[r]), n);
  if (job.gate == nullptr) return {normal, grad * gain, grad * normal, set(0), grad, set(0)};
  const F gate = load_some(job.gate + i, n), open = sigmoid(z * gate);
  F closing = grad * normal * gain;  // the gradient of the sigmoid
  if (job.bias != nullptr) closing = fma(grad, load_some(job.bias + i, n), closing);
  const F slope = closing * open * (set(1) - open);
  return {normal, grad * gain * open, grad * normal * open, slope * z, grad * open, slope * gate};
}

// Gradients of gain, gate and bias are added to `sums`, three times [padded width].
template <class T>
void backward_row(const HeadNorm<T>& job, const HeadNormGrads<T>& grads, int64_t r, float* sums, float* row) {
  const int64_t width = job.width, begin = r * width, wide = padded(width);
  F along_one = set(0), along_normal = set(0);
  for (int64_t i = 0; i < width; i += kLanes) {
    const Parts part = parts_of(job, grads, r, i);
    along_one = along_one + part.inner;
    along_normal = fma(part.inner, part.normal, along_normal);
    store(sums + i, load(sums + i) + part.gain);
    if (grads.grad_gate != nullptr) store(sums + wide + i, load(sums + wide + i) + part.gate);
    if (grads.grad_bias != nullptr) store(sums + 2 * wide + i, load(sums + 2 * wide + i) + part.bias);
    // grad_z less what the statistics take away: rstd (inner - ...) + through_gate.
    store(row + i, fma(part.inner, set(job.rstd[r]), part.through_gate));
  }
  const float share = job.rstd[r] / static_cast<float>(width);
  const F one = set(job.around == Centre::kMean ? sum(along_one) * share : 0), part = set(sum(along_normal) * share);
  for (int64_t i = 0; i < width; i += kLanes) {
    const F normal = (load_some(job.z + begin + i, width - i) - set(job.centre[r])) * set(job.rstd[r]);
    store_some(grads.grad_z + begin + i, fnma(normal, part, load(row + i) - one), width - i);
  }
}

template <class T>
void run_job(const HeadNorm<T>& job, T* y, Executor& executor) {
  executor.run(pieces_of_rows(job.rows), [&](int64_t piece, int) {
    float* row = thread_scratch(Use::kLeft).get<float>(padded(job.width));
    for_rows(piece, job.rows, [&](int64_t r) { forward_row(job, y, r, row); });
  });
}

template <class T>
void run_job(const HeadNorm<T>& job, const HeadNormGrads<T>& grads, Executor& executor) {
  const int64_t width = padded(job.width);
  const float* sums = sum_of_pieces(job.rows, 3 * width, executor, [&](int64_t piece, float* part) {
    float* row = thread_scratch(Use::kLeft).get<float>(width);
    for_rows(piece, job.rows, [&](int64_t r) { backward_row(job, grads, r, part, row); });
  });
  write_sums(sums, grads.grad_gain, job.width);
  if (grads.grad_gate != nullptr) write_sums(sums + width, grads.grad_gate, job.width);
  if (grads.grad_bias != nullptr) write_sums(sums + 2 * width, grads.grad_bias, job.width);
}

}  // namespace

template <Isa kLevel, class... Job>
void AtLevel<kLevel, Job...>::run(const Job&... job, Executor& executor) {
  run_job(job..., executor);
}
template struct AtLevel<kThisIsa, HeadNorm<float>, float*>;
template struct AtLevel<kThisIsa, HeadNorm<uint16_t>, uint16_t*>;
template struct AtLevel<kThisIsa, HeadNorm<float>, HeadNormGrads<float>>;
template struct AtLevel<kThisIsa, HeadNorm<uint16_t>, HeadNormGrads<uint16_t>>;

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
