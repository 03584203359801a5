#pragma once
#include "fovea/kernels/attention/cpu/rows_forward-inl.h"

// A few queries of a sequence that see all keys, by softmax: steps of decoding. All heads in one go, keys and values
// where they lie; neither lists of candidates nor packing, which would cost more than the products.
namespace fovea::kernels {
namespace {

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

}  // namespace
}  // namespace fovea::kernels
