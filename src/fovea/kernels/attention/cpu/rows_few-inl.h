#pragma once
#include "fovea/kernels/attention/cpu/rows_forward-inl.h"

// A few queries of a sequence that see all keys, by softmax: steps of decoding. All heads in one go, keys and values
// where they lie; neither lists of candidates nor packing, which would cost more than the products.
namespace fovea::kernels {
namespace {

struct FewBuffers {
  float *scores, *query, *out;
};

inline FewBuffers few_buffers(Arena& arena, int64_t keys, int64_t width) {
  const int64_t padded = round_up(width, kLanes);
  return {
      .scores = arena.take(round_up(keys, kLanes) + kLanes), .query = arena.take(padded), .out = arena.take(padded)};
}

class FewQueries {
 public:
  FewQueries(const RowsCall& call, int64_t keys, float* scratch) : problem_(*call.problem), in_(*call.forward) {
    Arena arena(scratch);
    b_ = few_buffers(arena, keys, problem_.head_dim);
  }

  void run(const Sequence& sequence) const {
    for (int64_t i = 0; i < sequence.q_length; ++i) {
      for (int64_t head = 0; head < problem_.num_heads; ++head) one(sequence, i, head);
    }
  }

  // Asks for the keys and values of a sequence whose turn comes next.
  void ask_for(const Sequence& sequence) const {
    const int64_t size = problem_.dtype == DType::kBFloat16 ? 2 : 4;
    for (const Rows<const void>* rows : {&in_.k, &in_.v}) {
      if (rows->head_stride != problem_.head_dim) continue;  // heads apart: not worth it
      const char* row = static_cast<const char*>(rows->data) + sequence.k_begin * rows->token_stride * size;
      for (int64_t key = 0; key < sequence.k_length; ++key, row += rows->token_stride * size) {
        for (int64_t at = 0; at < problem_.num_heads * problem_.head_dim * size; at += 64) __builtin_prefetch(row + at);
      }
    }
  }

 private:
  // Keys that query i sees are a prefix.
  int64_t keys_of(const Sequence& sequence, int64_t i) const {
    return std::max<int64_t>(row_of(problem_, sequence, i).limit(), 0);
  }

  void one(const Sequence& sequence, int64_t i, int64_t head) const {
    const int64_t width = problem_.head_dim, keys = keys_of(sequence, i), whole = round_up(keys, kLanes);
    const HeadRows queries = head_rows(in_.q, head, problem_.dtype), out = head_rows(in_.out, head, problem_.dtype);
    const TokenList query{sequence.q_begin + i, 1, nullptr};
    SingleRow row{.rows = head_rows(in_.k, head, problem_.dtype), .tokens = {sequence.k_begin, 1, nullptr}};
    row.width = width, row.ahead = 0;
    row.query = static_cast<const float*>(queries.data) + query.first * queries.stride;
    if (queries.bf16 || width % kLanes != 0) {
      pack_rows(queries, query, 1, width, b_.query);
      row.query = b_.query;
    }
    score_single(row, keys, in_.scale, b_.scores);
    if (keys < whole) fill(b_.scores, keys, whole, -kInfinity);
    float factor = 0;
    SoftmaxRow{}.weigh({.s = b_.scores, .stride = whole, .n = whole}, 1, &factor);
    row.rows = head_rows(in_.v, head, problem_.dtype);
    const Target target = target_of(out, query, width, b_.out);
    mix_single<false>(row, keys, b_.scores, factor, target.data);
    if (!all_finite(target.data, round_up(width, kLanes))) mix_single<true>(row, keys, b_.scores, factor, target.data);
    if (!target.direct) unpack_rows(target.data, target.stride, out, query, 1, width);
  }

  const AttentionProblem& problem_;
  const AttentionForward& in_;
  FewBuffers b_{};
};

}  // namespace
}  // namespace fovea::kernels
