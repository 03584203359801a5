#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <variant>

#include "fovea/kernels/attention/cpu/key_screen.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/cpu/scratch.h"
#include "fovea/kernels/attention/dropout.h"

#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/attention/cpu/rows_backward-inl.h"
#include "fovea/kernels/attention/cpu/rows_few-inl.h"
#include "fovea/kernels/attention/cpu/rows_forward-inl.h"
#include "fovea/kernels/attention/cpu/rows_screened-inl.h"

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

// Adds up what the parts have of key `key`, in the order of the parts: in the place of the first that has any, which it
// returns; null where none has.
const float* join_key(const RowsCall& call, int64_t index, int64_t key, bool values) {
  const int64_t padded = round_up(call.problem->head_dim, kLanes);
  float* sum = nullptr;
  for (int64_t i = index; i < index + call.tasks[static_cast<size_t>(index)].parts; ++i) {
    const RowsTask& part = call.tasks[static_cast<size_t>(i)];
    if (part.link > 0 || key < part.keys_begin || key >= part.keys_end) continue;
    const int64_t row = key - part.keys_begin + (values ? part.keys_end - part.keys_begin : 0);
    float* more = call.sums.keys(i) + row * padded;
    if (sum == nullptr) {
      sum = more;
      continue;
    }
    for (int64_t j = 0; j < padded; j += kLanes) store(sum + j, load(sum + j) + load(more + j));
  }
  return sum;
}

void join_parts(const RowsCall& call, int64_t index) {
  static constexpr float kZeros[kMaxRowsHeadDim] = {};
  const RowsTask& task = call.tasks[static_cast<size_t>(index)];
  const AttentionProblem& problem = *call.problem;
  const Sequence& sequence = problem.sequences[static_cast<size_t>(task.sequence)];
  for (const bool values : {false, true}) {
    const Rows<void>& out = values ? call.backward->grad_v : call.backward->grad_k;
    const HeadRows rows = head_rows(out, problem.key_head(task.head), problem.dtype);
    for (int64_t key = 0; key < sequence.k_length; ++key) {
      const float* sum = join_key(call, index, key, values);
      unpack_rows({sum == nullptr ? kZeros : sum, 0, problem.head_dim}, rows, {sequence.k_begin + key, 1, nullptr}, 1);
    }
  }
}

int64_t forward_floats(const RowsCall& call, const RowsTask& task) {
  Arena arena;
  const Candidates& table = call.tables->of(task.sequence, task.head);
  forward_buffers(arena, size_of(table, task), call.problem->head_dim);
  product_buffers(arena, call, task);
  return arena.used();
}

int64_t backward_floats(const RowsCall& call, const RowsTask& task) {
  const int64_t keys = call.problem->sequences[static_cast<size_t>(task.sequence)].k_length;
  Arena arena;
  const Candidates& table = call.tables->of(task.sequence, task.head);
  backward_buffers(arena, table, task, {call.problem->head_dim, keys});
  product_buffers(arena, call, task);
  return arena.used();
}

int64_t longest(const RowsCall& call, std::span<const int64_t> sequences) {
  int64_t keys = 0;
  for (const int64_t s : sequences) keys = std::max(keys, call.problem->sequences[static_cast<size_t>(s)].k_length);
  return keys;
}

int64_t few_floats(const RowsCall& call) {
  Arena arena;
  few_buffers(arena, *call.problem, longest(call, call.few));
  return arena.used();
}

int64_t screened_floats(const RowsCall& call) {
  Arena arena;
  screened_buffers(arena, *call.problem, longest(call, call.screened));
  return arena.used();
}

void forward_one_screened(const RowsCall& call, int64_t index, int64_t key_head, float* scratch) {
  const int64_t sequence = call.screened[static_cast<size_t>(index)];
  ScreenedRows(call, longest(call, call.screened), scratch)
      .run(call.problem->sequences[static_cast<size_t>(sequence)], key_head);
}

void forward_some_few(const RowsCall& call, std::span<const int64_t> few, float* scratch) {
  const FewQueries work(call, longest(call, call.few), scratch);
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
int64_t RowsKernel<kIsa>::screened_scratch(const RowsCall& call) {
  return screened_floats(call);
}
template <Isa kIsa>
void RowsKernel<kIsa>::forward_screened(const RowsCall& call, int64_t index, int64_t key_head, float* scratch) {
  forward_one_screened(call, index, key_head, scratch);
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

#include "fovea/kernels/simd/isa_end-inl.h"
