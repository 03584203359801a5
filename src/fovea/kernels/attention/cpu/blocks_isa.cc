#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>

#include "fovea/kernels/attention/cpu/blocks.h"
#include "fovea/kernels/attention/cpu/dense.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/cpu/scratch.h"
#include "fovea/kernels/attention/dropout.h"

#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/attention/cpu/blocks_backward-inl.h"
#include "fovea/kernels/attention/cpu/blocks_forward-inl.h"

namespace fovea::kernels {

template <Isa kIsa>
int64_t BlocksKernel<kIsa>::lanes() {
  return kLanes;
}
template <Isa kIsa>
int64_t BlocksKernel<kIsa>::forward_scratch(const BlocksCall& call, const BlocksTask& task) {
  Arena arena;
  blocks_forward_buffers(arena, task.end - task.begin, call.problem->head_dim);
  return arena.used();
}
template <Isa kIsa>
int64_t BlocksKernel<kIsa>::backward_scratch(const BlocksCall& call) {
  Arena arena;
  blocks_backward_buffers(arena, *call.problem);
  return arena.used();
}
template <Isa kIsa>
void BlocksKernel<kIsa>::forward(const BlocksCall& call, const BlocksTask& task, const BlockQueries& chosen,
                                 float* scratch) {
  BlocksForwardTask(call, task, chosen, scratch).run();
}
template <Isa kIsa>
double BlocksKernel<kIsa>::begin_backward(const BlocksCall& call, const BlocksTask& task, float* scratch) {
  return begin_blocks_backward(call, task, scratch);
}
template <Isa kIsa>
void BlocksKernel<kIsa>::backward(const BlocksCall& call, const BlocksTask& task, const BlockQueries* chosen,
                                  float* scratch) {
  BlocksBackwardTask(call, task, chosen, scratch).run();
}
template <Isa kIsa>
void BlocksKernel<kIsa>::join(const BlocksCall& call, const BlocksTask& task, std::span<const BlocksShare> shares) {
  const int64_t width = call.problem->head_dim, padded = round_up(width, kLanes);
  const int64_t first = task.sequence->q_begin, rows = task.sequence->q_length;
  const int64_t count = call.problem->offsets.by_query.count;
  const Rows<float>& by_query = call.backward->grad_terms.by_query;
  const BlocksShare& all = shares[0];
  for (const BlocksShare& share : shares.subspan(1)) {
    add_floats(all.sums, share.sums, rows * padded);
    if (by_query.data != nullptr) add_floats(all.terms, share.terms, rows * count);
  }
  unpack_rows({all.sums, padded, width}, head_rows(call.backward->grad_q, task.head, call.problem->dtype),
              {first, 1, nullptr}, rows);
  for (int64_t i = 0; i < rows && by_query.data != nullptr; ++i)
    std::copy_n(all.terms + i * count, count, float_row(by_query, first + i, task.head));
}

template struct BlocksKernel<kThisIsa>;

}  // namespace fovea::kernels

#include "fovea/kernels/simd/isa_end-inl.h"
