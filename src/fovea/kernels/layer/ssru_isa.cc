#include "fovea/kernels/layer/ssru.h"

#include <algorithm>
#include <cstring>

#include "fovea/kernels/layer/at_level.h"
#include "fovea/kernels/layer/scratch.h"
// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/layer/element-inl.h"
#include "fovea/kernels/simd/math-inl.h"

namespace fovea::kernels {
namespace {

// A piece of work is a sequence's columns of this many vectors, whose states stay in registers.
constexpr int kVectors = 4;
constexpr int64_t kColumns = kVectors * kLanes;

// The columns of one sequence: `first` is the first of them, and `left` are those from there to the end of a row.
struct Piece {
  int64_t sequence, begin, end, first, left;
};

template <class Job, class Work>
void for_pieces(const Job& job, Executor& executor, const Work& work) {
  const int64_t blocks = (job.width + kColumns - 1) / kColumns;
  executor.run(job.sequences * blocks, [&](int64_t piece, int) {
    const int64_t sequence = piece / blocks, first = piece % blocks * kColumns;
    work(Piece{sequence, job.offsets[sequence], job.offsets[sequence + 1], first, job.width - first});
  });
}

inline F after(F state, F open, F value) { return fma(open, state, (set(1) - open) * value); }

template <class T>
void run_job(const SsruForward<T>& job, Executor& executor) {
  for_pieces(job, executor, [&](const Piece& piece) {
    F state[kVectors];
    float* kept = job.states == nullptr ? nullptr : job.states + piece.sequence * job.width + piece.first;
    for (int v = 0; v < kVectors; ++v)
      state[v] = kept == nullptr ? set(0) : load_some(kept + v * kLanes, piece.left - v * kLanes);
    for (int64_t t = piece.begin; t < piece.end; ++t) {
      const T* value = job.projected + t * job.stride + piece.first;
      T* out = job.out + t * job.width + piece.first;
      for (int v = 0; v < kVectors; ++v) {
        const int64_t at = v * kLanes, n = piece.left - at;
        if (n <= 0) break;
        state[v] = after(state[v], sigmoid(load_some(value + job.width + at, n)), load_some(value + at, n));
        store_some(out + at, max(set(0), state[v]), n);  // in this order, NaN stays
      }
    }
    for (int v = 0; v < kVectors && kept != nullptr; ++v)
      store_some(kept + v * kLanes, state[v], piece.left - v * kLanes);
  });
}

// States and gates are computed again: reading the projections is cheaper than storing more.
template <class T>
void run_job(const SsruBackward<T>& job, Executor& executor) {
  for_pieces(job, executor, [&](const Piece& piece) {
    const int64_t length = piece.end - piece.begin;
    float* states = thread_scratch(Use::kSums).get<float>(2 * (length + 1) * kColumns);  // one more: before the first
    float* gates = states + (length + 1) * kColumns;
    std::fill_n(states, kColumns, 0.0F);
    for (int64_t i = 0; i < length; ++i) {
      const T* value = job.projected + (piece.begin + i) * job.stride + piece.first;
      for (int64_t at = 0; at < kColumns; at += kLanes) {
        const int64_t n = piece.left - at;
        if (n <= 0) break;
        const F open = sigmoid(load_some(value + job.width + at, n));
        store(gates + i * kColumns + at, open);
        store(states + (i + 1) * kColumns + at,
              after(load(states + i * kColumns + at), open, load_some(value + at, n)));
      }
    }
    F carried[kVectors];
    for (F& grad : carried) grad = set(0);
    for (int64_t i = length - 1; i >= 0; --i) {
      const int64_t t = piece.begin + i;
      const T* value = job.projected + t * job.stride + piece.first;
      T* grad_value = job.grad_projected + 2 * t * job.width + piece.first;
      for (int v = 0; v < kVectors; ++v) {
        const int64_t at = v * kLanes, n = piece.left - at;
        if (n <= 0) break;
        const F before = load(states + i * kColumns + at), state = load(states + (i + 1) * kColumns + at);
        const F open = load(gates + i * kColumns + at), shut = set(1) - open;
        const F grad = carried[v] + select(less(set(0), state),
                                           load_some(job.grad_out + t * job.width + piece.first + at, n), set(0));
        store_some(grad_value + at, grad * shut, n);
        store_some(grad_value + job.width + at, grad * (before - load_some(value + at, n)) * open * shut, n);
        carried[v] = grad * open;
      }
    }
  });
}

}  // namespace

template <Isa kLevel, class... Job>
void AtLevel<kLevel, Job...>::run(const Job&... job, Executor& executor) {
  run_job(job..., executor);
}
template struct AtLevel<kThisIsa, SsruForward<float>>;
template struct AtLevel<kThisIsa, SsruForward<uint16_t>>;
template struct AtLevel<kThisIsa, SsruBackward<float>>;
template struct AtLevel<kThisIsa, SsruBackward<uint16_t>>;

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
