#pragma once
#include "fovea/kernels/attention/cpu/offsets-inl.h"
#include "fovea/kernels/attention/cpu/row_dots-inl.h"
#include "fovea/kernels/attention/cpu/rows-inl.h"
#include "fovea/kernels/attention/cpu/rows_single-inl.h"

// Terms by offset in cpu-rows: those of a group of queries, a chunk of them at a time.
namespace fovea::kernels {
namespace {

// Buffers of the product's term. A group whose columns are a run meets a run of offsets, whose rows are packed once. A
// chunk multiplies its queries with the rows that it meets. Any other group names a row for each column.
struct ProductBuffers {
  float *panels, *rows;    // of the group's offsets: packed; for backward, as rows
  float *queries, *grads;  // of the chunk, [rows][padded]
  float* products;         // [rows][score_stride(offsets of the group)]; backward: gradients, too
  float* list;             // int32 [columns]: where a row's columns have their offsets
};

// Offsets that the queries of a group meet, if its columns are a run: as many as columns and steps of its queries.
inline int64_t offsets_of(const RowGroup& group) {
  return group.columns + static_cast<int64_t>(group.queries - 1) * group.query_step;
}
inline bool has_run(const RowGroup& group) { return group.list_at < 0 && group.key_step == 1; }

struct ProductSize {
  int64_t offsets = 0, products = 0;
};
inline ProductSize product_size(const Candidates& table, const RowsTask& task, const OffsetRange& range) {
  ProductSize size;
  for (int64_t g = task.group_begin; g < task.group_end; ++g) {
    const RowGroup& group = table.groups[static_cast<size_t>(g)];
    if (!has_run(group)) {
      size.products = std::max(size.products, score_stride(group.columns));
      continue;
    }
    const int64_t offsets = std::min(offsets_of(group), range.count);
    size.offsets = std::max(size.offsets, offsets);
    size.products = std::max(size.products, chunk_rows(group.queries, group.columns) * score_stride(offsets));
  }
  return size;
}

inline ProductBuffers product_buffers(Arena& arena, const RowsCall& call, const RowsTask& task) {
  const AttentionProblem& problem = *call.problem;
  const OffsetRange& range = problem.offsets.product;
  if (range.count == 0) return {};
  const Candidates& table = call.tables->of(task.sequence, task.head);
  const bool backward = call.backward != nullptr;
  const TaskSize sizes = size_of(table, task);
  const ProductSize size = product_size(table, task, range);
  const int64_t width = problem.head_dim, padded = round_up(width, kLanes);
  return {.panels = arena.take(panel_floats(size.offsets, width)),
          .rows = backward ? arena.take(size.offsets * padded) : nullptr,
          .queries = arena.take(sizes.rows * padded),
          .grads = backward ? arena.take(sizes.rows * padded) : nullptr,
          .products = arena.take(size.products + kLanes),
          .list = arena.take(score_stride(sizes.columns))};
}

// The arrays of the product's term under one head.
struct ProductArrays {
  HeadRows queries, rows;
  ProductArrays() = default;
  ProductArrays(const OffsetTerms& terms, const SequenceView& view)
      : queries(head_rows(terms.queries, view.head, view.problem.dtype)),
        rows(head_rows(terms.rows, view.head, view.problem.dtype)) {}
};

// Rows first ... first + rows - 1 of a group, over the columns of `part`.
struct RowChunk {
  const RowGroup& group;
  int64_t first, rows;
  ColumnPart part;
};

class RowTerms {
 public:
  // scale: on the product.
  RowTerms(const HeadView& view, const OffsetTerms& terms, const ProductBuffers& buffers, float scale)
      : view_(view), terms_(terms), b_(buffers), has_(view.problem.offsets), scale_(scale) {
    if (has_.product.count > 0) arrays_ = ProductArrays(terms, view);
  }

  bool any() const { return has_.any(); }

  // Packs what the group's product needs.
  void begin_group(const RowGroup& group) {
    if (has_.product.count == 0 || !has_run(group) || group.columns == 0) return;
    const int64_t lowest = offsets(group, group.queries - 1)[0];
    met_ = met_by(has_.product, lowest, lowest + offsets_of(group) - 1);
    const TokenList rows = {met_.first - has_.product.first, 1, nullptr};
    if (group.queries > 1)
      RowDots({}, arrays_.rows, view_.width, Words::kFloats).pack_right(rows, met_.count, b_.panels);
    if (b_.rows != nullptr) pack_rows(arrays_.rows, rows, met_.count, view_.width, b_.rows);
  }

  // Adds to the scores of a chunk, at `scores` in rows of `stride`, the terms of all candidates.
  void add(const RowChunk& chunk, float* scores, int64_t stride) {
    if (has_.product.count > 0) multiply(chunk);
    for (int64_t r = 0; r < chunk.rows; ++r) {
      const int64_t at = chunk.first + r;
      float* s = scores + r * stride;
      const ColumnOffsets columns = offsets(chunk.group, at);
      const ColumnRange hull = hull_of_row(chunk.group, at);
      if (has_.by_head.count > 0) add_at_offsets(s, hull, columns, by_head());
      if (has_.by_query.count > 0) {
        const float* row = float_row(terms_.by_query, token(chunk.group, at), view_.head);
        add_at_offsets(s, hull, columns, {row, has_.by_query});
      }
      if (has_.product.count == 0) continue;
      if (has_run(chunk.group)) {
        add_at_offsets(s, hull, columns, {products(r), met_});
      } else {
        add_listed(chunk, r, hull, s);
      }
    }
  }

  // Sums of a chunk's weights, each row times its factor.
  void sum_weights(const RowChunk& chunk, const float* weights, int64_t stride, const float* factors) const {
    if (has_.sums.count == 0) return;
    for (int64_t r = 0; r < chunk.rows; ++r) {
      const int64_t at = chunk.first + r;
      float* sums = float_row(terms_.sums, token(chunk.group, at), view_.head);
      std::fill_n(sums, has_.sums.count, 0.0F);
      sum_by_offset(weights + r * stride, hull_of_row(chunk.group, at), offsets(chunk.group, at), has_.sums, sums);
      for (int64_t i = 0; i < has_.sums.count; ++i) sums[i] *= factors[r];
    }
  }

  // Backward: adds what the sums' gradients give to those of weights.
  void add_sum_gradients(const RowChunk& chunk, const OffsetGradients& given, float* grads, int64_t stride) const {
    if (has_.sums.count == 0 || given.sums.data == nullptr) return;
    for (int64_t r = 0; r < chunk.rows; ++r) {
      const int64_t at = chunk.first + r;
      const float* row = float_row(given.sums, token(chunk.group, at), view_.head);
      add_at_offsets(grads + r * stride, hull_of_row(chunk.group, at), offsets(chunk.group, at), {row, has_.sums});
    }
  }

  // Adds the gradients of the terms from the gradients of a chunk's scores.
  void add_gradients(const RowChunk& chunk, const OffsetGradients& to, const SharedTermSums& shared, const float* grads,
                     int64_t stride) {
    for (int64_t r = 0; r < chunk.rows; ++r) {
      const int64_t at = chunk.first + r;
      const float* g = grads + r * stride;
      const ColumnOffsets columns = offsets(chunk.group, at);
      const ColumnRange hull = hull_of_row(chunk.group, at);
      if (shared.by_head != nullptr) sum_by_offset(g, hull, columns, shared.by_head_range, shared.by_head);
      if (has_.by_query.count == 0 || to.by_query.data == nullptr) continue;
      float* row = float_row(to.by_query, token(chunk.group, at), view_.head);
      std::fill_n(row, has_.by_query.count, 0.0F);
      sum_by_offset(g, hull, columns, has_.by_query, row);
    }
    if (has_.product.count == 0) return;
    if (has_run(chunk.group)) {
      add_product_gradients(chunk, shared, grads, stride);
    } else {
      for (int64_t r = 0; r < chunk.rows; ++r) add_listed_gradients(chunk, r, shared, grads + r * stride);
    }
    if (to.queries.data == nullptr) return;
    const TokenList tokens = view_.queries(chunk.group, chunk.first);
    unpack_rows({b_.grads, view_.padded, view_.width}, head_rows(to.queries, view_.head, view_.problem.dtype), tokens,
                chunk.rows);
  }

 private:
  int64_t token(const RowGroup& group, int64_t r) const { return view_.queries(group, 0)[r]; }
  ColumnOffsets offsets(const RowGroup& group, int64_t r) const {
    const Sequence& s = view_.sequence;
    const int64_t position = group.first_query + r * group.query_step + s.k_length - s.q_length;
    const int32_t* list = view_.list(group);
    return {(list == nullptr ? group.key_begin : 0) - position, group.key_step, list};
  }
  ColumnRange hull_of_row(const RowGroup& group, int64_t r) const {
    return view_.table.hull[static_cast<size_t>(group.row + r)];
  }
  OffsetRow by_head() const { return {terms_.by_head + view_.head * has_.by_head.count, has_.by_head}; }
  float* products(int64_t r) const { return b_.products + r * product_stride(); }
  int64_t product_stride() const { return score_stride(met_.count); }
  float* queries(int64_t r) const { return b_.queries + r * view_.padded; }

  // The places in met_ that the chunk's rows meet.
  ColumnPart met_part(const RowChunk& chunk) const {
    const int64_t lowest = offsets(chunk.group, chunk.first + chunk.rows - 1)[chunk.part.begin];
    const int64_t highest = offsets(chunk.group, chunk.first)[std::max(chunk.part.begin, chunk.part.end - 1)];
    return {met_.index(lowest), met_.index(highest) + 1};
  }

  void multiply(const RowChunk& chunk) {
    pack_rows(arrays_.queries, view_.queries(chunk.group, chunk.first), chunk.rows, view_.width, b_.queries);
    if (!has_run(chunk.group) || chunk.part.size() == 0) return;
    if (chunk.group.queries == 1) {
      const ColumnPart met = met_part(chunk);
      const TokenList met_rows = {met_.first - has_.product.first + met.begin, 1, nullptr};
      const SingleRow row{b_.queries, arrays_.rows, met_rows, view_.width, 0};
      return score_single(row, met.size(), scale_, b_.products + met.begin);
    }
    const ColumnPart met = met_part(chunk);
    const ScoreProduct product = {b_.queries,  view_.padded,     b_.panels, view_.width,
                                  b_.products, product_stride(), &scale_};
    multiply_panels(product, chunk.rows, {round_down(met.begin, kLanes), round_up(met.end, kLanes)});
  }

  // The columns' offsets as rows of the product.
  const int32_t* list_rows(const RowGroup& group, int64_t r, ColumnRange hull) const {
    const ColumnOffsets columns = offsets(group, r);
    auto* list = reinterpret_cast<int32_t*>(b_.list);
    for (int64_t c = hull.begin; c < hull.end; ++c) list[c] = static_cast<int32_t>(has_.product.index(columns[c]));
    return list;
  }
  void add_listed(const RowChunk& chunk, int64_t r, ColumnRange hull, float* s) const {
    const TokenList rows = {0, 1, list_rows(chunk.group, chunk.first + r, hull) + hull.begin};
    const SingleRow row{queries(r), arrays_.rows, rows, view_.width, 0};
    const int64_t count = hull.end - hull.begin;
    if (count <= 0) return;
    score_single(row, count, scale_, b_.products);
    add_floats(s + hull.begin, b_.products, count);
  }

  // Gradients of the chunk's products, then of its queries and of the rows that it meets.
  void add_product_gradients(const RowChunk& chunk, const SharedTermSums& shared, const float* grads, int64_t stride) {
    const int64_t padded = view_.padded, vecs = padded / kLanes;
    if (chunk.part.size() == 0) return fill(b_.grads, 0, chunk.rows * padded, 0);
    const ColumnPart met = met_part(chunk);
    for (int64_t r = 0; r < chunk.rows; ++r) {
      const int64_t at = chunk.first + r;
      std::fill_n(products(r) + met.begin, met.size(), 0.0F);
      sum_by_offset(grads + r * stride, hull_of_row(chunk.group, at), offsets(chunk.group, at), met_, products(r));
    }
    Product product = {.a = b_.products + met.begin,
                       .a_row = product_stride(),
                       .b = b_.rows + met.begin * padded,
                       .b_step = padded,
                       .c = b_.grads,
                       .c_row = padded,
                       .depth = met.size(),
                       .factor = &scale_};
    kernels::multiply(product, chunk.rows, vecs);
    if (shared.rows == nullptr) return;
    product.a_row = 1, product.a_step = product_stride();
    product.b = b_.queries;
    product.c = shared.rows + (met_.first + met.begin - shared.rows_range.first) * padded;
    product.depth = chunk.rows;
    product.add = true;
    const int64_t count = summed_offsets(shared, met_.first + met.begin, met.size());
    if (count > 0) kernels::multiply(product, count, vecs);
  }

  void add_listed_gradients(const RowChunk& chunk, int64_t r, const SharedTermSums& shared, const float* grads) const {
    const int64_t padded = view_.padded;
    const ColumnRange hull = hull_of_row(chunk.group, chunk.first + r);
    const int32_t* list = list_rows(chunk.group, chunk.first + r, hull);
    float* of_query = b_.grads + r * padded;
    fill(of_query, 0, padded, 0);
    with_loader(arrays_.rows, view_.width, [&](const auto& load_row) {
      for (int64_t c = hull.begin; c < hull.end; ++c) {
        const F g = set(grads[c] * scale_);
        for (int64_t i = 0; i < padded; i += kLanes) {
          store(of_query + i, fma(g, load_row(list[c], i), load(of_query + i)));
        }
        if (shared.rows == nullptr) continue;
        const int64_t at = list[c] + has_.product.first - shared.rows_range.first;
        float* row = shared.rows + at * padded;
        for (int64_t i = 0; i < padded; i += kLanes) store(row + i, fma(g, load(queries(r) + i), load(row + i)));
      }
    });
  }

  const HeadView& view_;
  const OffsetTerms& terms_;
  ProductBuffers b_;
  const OffsetRanges& has_;
  ProductArrays arrays_;
  OffsetRange met_;  // of the group
  float scale_;
};

}  // namespace
}  // namespace fovea::kernels
