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
#include "fovea/kernels/attention/cpu/rows_forward-inl.h"
#include "fovea/kernels/attention/cpu/rows_screened-inl.h"

namespace fovea::kernels {
namespace {

// ---- few queries ----

// A few queries of a sequence that see all keys, by softmax: steps of decoding. All heads in one go, keys and values
// where they lie; neither lists of candidates nor packing, which would cost more than the products.

struct FewBuffers {
  float *scores, *query, *out, *factors;  // scores [H, stride]
  float* products;                        // of one head, with a product's term
  int64_t stride;
};

inline FewBuffers few_buffers(Arena& arena, const AttentionProblem& problem, int64_t keys) {
  const int64_t padded = round_up(problem.head_dim, kLanes), stride = score_stride(keys);
  return {.scores = arena.take(problem.num_heads * stride),
          .query = arena.take(padded),
          .out = arena.take(padded),
          .factors = arena.take(problem.num_heads),
          .products = arena.take(problem.offsets.product.count > 0 ? stride + kLanes : 0),
          .stride = stride};
}

class FewQueries {
 public:
  // keys: the most that a sequence has.
  FewQueries(const RowsCall& call, int64_t keys, float* scratch) : problem_(*call.problem), in_(*call.forward) {
    Arena arena(scratch);
    b_ = few_buffers(arena, problem_, keys);
  }

  void run(const Sequence& sequence) const {
    for (int64_t i = 0; i < sequence.q_length; ++i) one(sequence, i);
  }

  // Prefetches the keys and values of a sequence whose turn comes next, except for rows that the one before it has too.
  void ask_for(const Sequence& sequence, const Sequence& before) const {
    const TokenList tokens = keys_of(sequence), asked = keys_of(before);
    const int64_t size = problem_.dtype == DType::kBFloat16 ? 2 : 4;
    const int64_t bytes = problem_.num_key_heads() * problem_.head_dim * size;
    for (const Rows<const void>* rows : {&in_.k, &in_.v}) {
      if (rows->head_stride != problem_.head_dim) continue;  // heads apart: not worth it
      for (int64_t key = 0; key < sequence.k_length; ++key) {
        const int64_t token = tokens[key];
        if (key < before.k_length && asked[key] == token) continue;
        const char* row = static_cast<const char*>(rows->data) + token * rows->token_stride * size;
        for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at);
      }
    }
  }

 private:
  TokenList keys_of(const Sequence& sequence) const { return {sequence.k_begin, 1, nullptr, in_.key_tokens}; }

  // All heads in each step, whose chains of sums and exponentials then run side by side.
  void one(const Sequence& sequence, int64_t i) const {
    // Keys that the query sees are a prefix.
    const int64_t keys = std::max<int64_t>(row_of(problem_, sequence, i).limit(), 0), whole = round_up(keys, kLanes);
    const TokenList query{sequence.q_begin + i, 1, nullptr};
    for (int64_t head = 0; head < problem_.num_heads; ++head) score(sequence, query, head, keys);
    if (problem_.offsets.changes_scores()) {
      for (int64_t head = 0; head < problem_.num_heads; ++head) add_terms(sequence, i, head, keys);
    }
    SoftmaxRow{}.weigh({.s = b_.scores, .stride = b_.stride, .n = whole}, problem_.num_heads, b_.factors);
    for (int64_t head = 0; head < problem_.num_heads; ++head) mix(sequence, query, head, keys);
    if (problem_.offsets.sums.count > 0) sum_weights(sequence, i, keys);
  }

  SingleRow single(const Sequence& sequence, const Rows<const void>& rows, int64_t head) const {
    return {.rows = head_rows(rows, problem_.key_head(head), problem_.dtype),
            .tokens = keys_of(sequence),
            .width = problem_.head_dim,
            .ahead = 0};
  }

  void score(const Sequence& sequence, const TokenList& query, int64_t head, int64_t keys) const {
    const HeadRows queries = head_rows(in_.q, head, problem_.dtype);
    SingleRow row = single(sequence, in_.k, head);
    row.query = static_cast<const float*>(queries.data) + query.first * queries.stride;
    if (queries.lane != Lane::kFloat || row.width % kLanes != 0) {
      pack_rows(queries, query, 1, row.width, b_.query);
      row.query = b_.query;
    }
    float* s = b_.scores + head * b_.stride;
    score_single(row, keys, in_.scale, s);
    if (const auto& cap = problem_.spec.cap) cap_row(SoftCap(cap->cap), s, {0, round_up(keys, kLanes)}, nullptr);
    fill(s, keys, round_up(keys, kLanes), -kInfinity);
  }

  ColumnOffsets offsets(const Sequence& sequence, int64_t i) const {
    return {sequence.q_length - sequence.k_length - i, 1, nullptr};
  }

  void add_terms(const Sequence& sequence, int64_t i, int64_t head, int64_t keys) const {
    const OffsetRanges& has = problem_.offsets;
    const ColumnOffsets columns = offsets(sequence, i);
    const ColumnRange all = {0, static_cast<int32_t>(keys)};
    const int64_t token = sequence.q_begin + i;
    float* s = b_.scores + head * b_.stride;
    if (has.by_head.count > 0) {
      add_at_offsets(s, all, columns, {in_.terms.by_head + head * has.by_head.count, has.by_head});
    }
    if (has.by_query.count > 0) {
      add_at_offsets(s, all, columns, {float_row(in_.terms.by_query, token, head), has.by_query});
    }
    if (has.product.count == 0 || keys == 0) return;
    const OffsetRange met = met_by(has.product, columns[0], columns[keys - 1]);
    SingleRow row{.query = b_.query,
                  .rows = head_rows(in_.terms.rows, head, problem_.dtype),
                  .tokens = {met.first - has.product.first, 1, nullptr},
                  .width = problem_.head_dim,
                  .ahead = 0};
    pack_rows(head_rows(in_.terms.queries, head, problem_.dtype), {token, 1, nullptr}, 1, row.width, b_.query);
    score_single(row, met.count, in_.scale, b_.products);
    add_at_offsets(s, all, columns, {b_.products, met});
  }

  void sum_weights(const Sequence& sequence, int64_t i, int64_t keys) const {
    const OffsetRange& range = problem_.offsets.sums;
    for (int64_t head = 0; head < problem_.num_heads; ++head) {
      float* sums = float_row(in_.terms.sums, sequence.q_begin + i, head);
      std::fill_n(sums, range.count, 0.0F);
      sum_by_offset(b_.scores + head * b_.stride, {0, static_cast<int32_t>(keys)}, offsets(sequence, i), range, sums);
      for (int64_t o = 0; o < range.count; ++o) sums[o] *= b_.factors[head];
    }
  }

  void mix(const Sequence& sequence, const TokenList& query, int64_t head, int64_t keys) const {
    const SingleRow row = single(sequence, in_.v, head);
    const HeadRows out = head_rows(in_.out, head, problem_.dtype);
    const Target target = target_of(out, query, row.width, b_.out);
    const float *weights = b_.scores + head * b_.stride, factor = b_.factors[head];
    mix_single<false>(row, keys, weights, factor, target.data);
    if (!all_finite(target.data, round_up(row.width, kLanes))) {
      mix_single<true>(row, keys, weights, factor, target.data);
    }
    if (!target.direct) unpack_rows({target.data, target.stride, row.width}, out, query, 1);
  }

  const AttentionProblem& problem_;
  const AttentionForward& in_;
  FewBuffers b_{};
};

// ---- the kernel ----

int64_t longest(const RowsCall& call, std::span<const int64_t> sequences) {
  int64_t keys = 0;
  for (const int64_t s : sequences) keys = std::max(keys, call.problem->sequences[static_cast<size_t>(s)].k_length);
  return keys;
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

}  // namespace

template <Isa kIsa>
int64_t RowsKernel<kIsa>::lanes() {
  return kLanes;
}

template <Isa kIsa>
int64_t RowsKernel<kIsa>::few_scratch(const RowsCall& call) {
  Arena arena;
  few_buffers(arena, *call.problem, longest(call, call.few));
  return arena.used();
}

template <Isa kIsa>
void RowsKernel<kIsa>::forward_few(const RowsCall& call, int64_t begin, int64_t end, float* scratch) {
  const FewQueries work(call, longest(call, call.few), scratch);
  const auto sequence = [&](int64_t i) -> const Sequence& {
    return call.problem->sequences[static_cast<size_t>(call.few[static_cast<size_t>(i)])];
  };
  for (int64_t i = begin; i < end; ++i) {
    if (i + 1 < end) work.ask_for(sequence(i + 1), sequence(i));
    work.run(sequence(i));
  }
}

template <Isa kIsa>
int64_t RowsKernel<kIsa>::screened_scratch(const RowsCall& call) {
  Arena arena;
  screened_buffers(arena, *call.problem, longest(call, call.screened));
  return arena.used();
}

template <Isa kIsa>
void RowsKernel<kIsa>::forward_screened(const RowsCall& call, int64_t index, int64_t key_head, float* scratch) {
  const int64_t sequence = call.screened[static_cast<size_t>(index)];
  ScreenedRows(call, longest(call, call.screened), scratch)
      .run(call.problem->sequences[static_cast<size_t>(sequence)], key_head);
}

template <Isa kIsa>
int64_t RowsKernel<kIsa>::forward_scratch(const RowsCall& call, const RowsTask& task) {
  Arena arena;
  const Candidates& table = call.tables->of(task.sequence, task.head);
  forward_buffers(arena, size_of(table, task), call.problem->head_dim, call.problem->spec.selects());
  product_buffers(arena, call, task);
  return arena.used();
}

template <Isa kIsa>
int64_t RowsKernel<kIsa>::backward_scratch(const RowsCall& call, const RowsTask& task) {
  const int64_t keys = call.problem->sequences[static_cast<size_t>(task.sequence)].k_length;
  Arena arena;
  const Candidates& table = call.tables->of(task.sequence, task.head);
  backward_buffers(arena, table, task, {call.problem->head_dim, keys}, call.problem->spec.cap.has_value());
  product_buffers(arena, call, task);
  return arena.used();
}

template <Isa kIsa>
void RowsKernel<kIsa>::forward(const RowsCall& call, int64_t task, float* scratch) {
  ForwardTask work(call, task, scratch);
  with_transform(*call.problem, call.forward->alpha, call.tasks[static_cast<size_t>(task)].head,
                 [&](const auto& transform) { work.run(transform); });
}

template <Isa kIsa>
void RowsKernel<kIsa>::backward(const RowsCall& call, int64_t task, float* scratch) {
  BackwardTask work(call, task, scratch);
  with_transform(*call.problem, call.backward->alpha, call.tasks[static_cast<size_t>(task)].head, [&](auto transform) {
    work.run(transform);
    if constexpr (requires { transform.grad_alpha; }) call.grad_alpha[task] = transform.grad_alpha;
  });
}

template <Isa kIsa>
void RowsKernel<kIsa>::join(const RowsCall& call, int64_t index) {
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

template struct RowsKernel<kThisIsa>;

}  // namespace fovea::kernels

#include "fovea/kernels/simd/isa_end-inl.h"
