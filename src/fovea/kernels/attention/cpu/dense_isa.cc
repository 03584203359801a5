#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>

#include "fovea/kernels/attention/cpu/dense.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/cpu/scratch.h"
#include "fovea/kernels/attention/dropout.h"

#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/attention/cpu/dense_backward-inl.h"
#include "fovea/kernels/attention/cpu/dense_forward-inl.h"

namespace fovea::kernels {

template <Isa kIsa>
int64_t DenseKernel<kIsa>::lanes() {
  return kLanes;
}
template <Isa kIsa>
int64_t DenseKernel<kIsa>::forward_scratch(const DenseCall& call, const DenseTask& task) {
  Arena arena;
  dense_forward_buffers(arena, task.end - task.begin, call.problem->head_dim);
  window_buffers(arena, call);
  return arena.used();
}
template <Isa kIsa>
int64_t DenseKernel<kIsa>::backward_scratch(const DenseCall& call, const DenseTask& task) {
  Arena arena;
  dense_backward_buffers(arena, call, task);
  window_buffers(arena, call);
  return arena.used();
}
template <Isa kIsa>
void DenseKernel<kIsa>::forward(const DenseCall& call, int64_t task, float* scratch) {
  DenseForwardTask work(call, call.tasks[static_cast<size_t>(task)], scratch);
  with_dense_transform(*call.problem, [&](const auto& transform) { work.run(transform); });
}
template <Isa kIsa>
void DenseKernel<kIsa>::backward(const DenseCall& call, int64_t task, float* scratch) {
  DenseBackwardTask work(call, task, scratch);
  with_dense_transform(*call.problem, [&](const auto& transform) { work.run(transform); });
}
template <Isa kIsa>
void DenseKernel<kIsa>::join(const DenseCall& call, int64_t task) {
  const DenseTask& first = call.tasks[static_cast<size_t>(task)];
  const int64_t width = call.problem->head_dim, padded = round_up(width, kLanes);
  const QuerySums places(*call.problem, call.backward->grad_terms, first.sequence->q_length, padded);
  float* sums = call.sums.own(task);
  for (int64_t part = 1; part < first.parts; ++part) {
    add_floats(sums, call.sums.own(task + part * first.links), places.end);
  }
  unpack_rows({sums, padded, width}, head_rows(call.backward->grad_q, first.head, call.problem->dtype),
              {first.sequence->q_begin, 1, nullptr}, first.sequence->q_length);
  QueryTermSums of_terms;
  if (call.backward->grad_terms.queries.data != nullptr) of_terms.queries = sums + places.queries;
  if (call.backward->grad_terms.by_query.data != nullptr) of_terms.by_query = sums + places.by_query;
  write_query_terms(DenseView(call, first, *call.backward), call.backward->grad_terms, of_terms);
}

template <Isa kIsa>
void DenseKernel<kIsa>::join_heads(const DenseCall& call, int64_t task) {
  const DenseTask& first = call.tasks[static_cast<size_t>(task)];
  const AttentionProblem& problem = *call.problem;
  const int64_t width = problem.head_dim, padded = round_up(width, kLanes), count = first.end - first.begin;
  const int64_t key_head = problem.key_head(first.head), heads = problem.heads_end(key_head) - first.head;
  float* sums = call.sums.keys(task);
  for (int64_t h = first.links; h < heads; h += first.links) {
    add_floats(sums, call.sums.keys(task + h * first.parts), 2 * count * padded);
  }
  const TokenList keys{first.sequence->k_begin + first.begin, 1, nullptr};
  unpack_rows({sums, padded, width}, head_rows(call.backward->grad_k, key_head, problem.dtype), keys, count);
  unpack_rows({sums + count * padded, padded, width}, head_rows(call.backward->grad_v, key_head, problem.dtype), keys,
              count);
}

template struct DenseKernel<kThisIsa>;

}  // namespace fovea::kernels

#include "fovea/kernels/simd/isa_end-inl.h"
