#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <variant>

#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/dropout.h"

#include "fovea/kernels/attention/cpu/isa_begin-inl.h"

#include "fovea/kernels/attention/cpu/rows_backward-inl.h"
#include "fovea/kernels/attention/cpu/rows_few-inl.h"
#include "fovea/kernels/attention/cpu/rows_forward-inl.h"

namespace fovea::kernels {
namespace {

void forward_task(const RowsCall& call, int64_t index, float* scratch) {
  ForwardTask work(call, index, scratch);
  with_transform(*call.problem, call.forward->alpha, call.tasks[static_cast<size_t>(index)].head,
                 [&](const auto& transform) { work.run(transform); });
}

void backward_task(const RowsCall& call, int64_t index, float* scratch) {
  BackwardTask work(call, index, scratch);
  with_transform(*call.problem, call.backward->alpha, call.tasks[static_cast<size_t>(index)].head, [&](auto transform) {
    work.run(transform);
    if constexpr (requires { transform.grad_alpha; }) call.grad_alpha[index] = transform.grad_alpha;
  });
}

void join_parts(const RowsCall& call, int64_t index) {
  const RowsTask& task = call.tasks[static_cast<size_t>(index)];
  const AttentionProblem& problem = *call.problem;
  const Sequence& sequence = problem.sequences[static_cast<size_t>(task.sequence)];
  const int64_t padded = round_up(problem.head_dim, kLanes), all = sequence.k_length * padded;
  float* sums = call.partials + call.partial_at[static_cast<size_t>(index)];
  for (int64_t part = 1; part < task.parts; ++part) {
    const float* more = call.partials + call.partial_at[static_cast<size_t>(index + part)];
    for (int64_t i = 0; i < 2 * all; i += kLanes) store(sums + i, load(sums + i) + load(more + i));
  }
  const int64_t width = problem.head_dim;
  const HeadRows grad_k = head_rows(call.backward->grad_k, task.head, problem.dtype);
  const HeadRows grad_v = head_rows(call.backward->grad_v, task.head, problem.dtype);
  const TokenList keys{sequence.k_begin, 1, nullptr};
  unpack_rows(sums, padded, grad_k, keys, sequence.k_length, width);
  unpack_rows(sums + all, padded, grad_v, keys, sequence.k_length, width);
}

int64_t forward_floats(const RowsCall& call, const RowsTask& task) {
  Arena arena;
  forward_buffers(arena, size_of(call.tables->of(task.sequence, task.head), task), call.problem->head_dim);
  return arena.used();
}

int64_t backward_floats(const RowsCall& call, const RowsTask& task) {
  const int64_t keys = call.problem->sequences[static_cast<size_t>(task.sequence)].k_length;
  Arena arena;
  backward_buffers(arena, call.tables->of(task.sequence, task.head), task, {call.problem->head_dim, keys});
  return arena.used();
}

int64_t longest_few(const RowsCall& call) {
  int64_t keys = 0;
  for (const int64_t s : call.few) keys = std::max(keys, call.problem->sequences[static_cast<size_t>(s)].k_length);
  return keys;
}

int64_t few_floats(const RowsCall& call) {
  Arena arena;
  few_buffers(arena, *call.problem, longest_few(call));
  return arena.used();
}

void forward_some_few(const RowsCall& call, std::span<const int64_t> few, float* scratch) {
  const FewQueries work(call, longest_few(call), scratch);
  const auto sequence = [&](size_t i) -> const Sequence& {
    return call.problem->sequences[static_cast<size_t>(few[i])];
  };
  for (size_t i = 0; i < few.size(); ++i) {
    if (i + 1 < few.size()) work.ask_for(sequence(i + 1), sequence(i));
    work.run(sequence(i));
  }
}

}  // namespace

template <Isa kIsa>
int64_t RowsKernel<kIsa>::few_scratch(const RowsCall& call) {
  return few_floats(call);
}
template <Isa kIsa>
void RowsKernel<kIsa>::forward_few(const RowsCall& call, int64_t begin, int64_t end, float* scratch) {
  forward_some_few(call, call.few.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), scratch);
}
template <Isa kIsa>
int64_t RowsKernel<kIsa>::lanes() {
  return kLanes;
}
template <Isa kIsa>
int64_t RowsKernel<kIsa>::forward_scratch(const RowsCall& call, const RowsTask& task) {
  return forward_floats(call, task);
}
template <Isa kIsa>
int64_t RowsKernel<kIsa>::backward_scratch(const RowsCall& call, const RowsTask& task) {
  return backward_floats(call, task);
}
template <Isa kIsa>
void RowsKernel<kIsa>::forward(const RowsCall& call, int64_t task, float* scratch) {
  forward_task(call, task, scratch);
}
template <Isa kIsa>
void RowsKernel<kIsa>::backward(const RowsCall& call, int64_t task, float* scratch) {
  backward_task(call, task, scratch);
}
template <Isa kIsa>
void RowsKernel<kIsa>::join(const RowsCall& call, int64_t task) {
  join_parts(call, task);
}

template struct RowsKernel<kThisIsa>;

}  // namespace fovea::kernels

#include "fovea/kernels/attention/cpu/isa_end-inl.h"
