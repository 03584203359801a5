#pragma once
#include "fovea/kernels/attention/cpu/dense_common-inl.h"
#include "fovea/kernels/attention/cpu/offsets-inl.h"

// Shared by forward and backward of cpu-blocks: queries brought together, and the keys that they see.
namespace fovea::kernels {
namespace {

// Keys of a block in a product; blocks of more are cut. The scores of kBlockRows queries stay in the first two caches.
constexpr int64_t kBlocksColumns = 128;
static_assert(kBlocksColumns <= kBlockColumns);

// Some queries of one sequence that have a block in common, and keys [begin, begin + columns) of that block.
struct GatheredBlock {
  const int32_t* queries = nullptr;
  int64_t rows = 0, begin = 0, columns = 0;
  ColumnPart part() const { return {0, round_up(columns, kLanes)}; }
};

struct BlocksView : SequenceView {
  template <class Args>
  BlocksView(const BlocksCall& call, const BlocksTask& task, int64_t its_head, const Args& args)
      : SequenceView(*call.problem, *task.sequence, its_head, args) {
    stats = blocks_stats(problem);
  }
  HeadRows rows(const Rows<const void>& array, int64_t of_head) const {
    return head_rows(array, of_head, problem.dtype);
  }
  TokenList queries(const GatheredBlock& block) const { return {sequence.q_begin, 1, block.queries}; }
  TokenList query(int64_t first) const { return {sequence.q_begin + first, 1, nullptr}; }
  TokenList keys(int64_t first) const { return {sequence.k_begin + first, 1, nullptr}; }
  // The number of the block's columns that its row r sees: the first ones.
  int64_t seen_of(const GatheredBlock& block, int64_t r) const {
    return std::clamp<int64_t>(row_of(problem, sequence, block.queries[r]).limit() - block.begin, 0, block.columns);
  }
  // The block's columns that its row r sees, and their offsets from its query.
  ColumnRange columns_of(const GatheredBlock& block, int64_t r) const {
    return {0, static_cast<int32_t>(seen_of(block, r))};
  }
  ColumnOffsets offsets_of(const GatheredBlock& block, int64_t r) const {
    return {block.begin - (block.queries[r] + sequence.k_length - sequence.q_length), 1, nullptr};
  }
  // Products become scores: the soft cap, whose slopes go to `slopes` unless it is null, then the terms by offset, and
  // minus infinity in the columns that a row does not see.
  void finish_scores(const GatheredBlock& block, const OffsetTerms& terms, float* s, float* slopes) const {
    if (problem.spec.cap) {
      const SoftCap cap(problem.spec.cap->cap);
      for (int64_t r = 0; r < block.rows; ++r) {
        cap_row(cap, s + r * kBlockStride, block.part(), slopes == nullptr ? nullptr : slopes + r * kBlockStride);
      }
      if (slopes != nullptr) mask(block, slopes, 0);  // what products hold there may be no number
    }
    const OffsetRange &by_head = problem.offsets.by_head, &by_query = problem.offsets.by_query;
    for (int64_t r = 0; r < block.rows && by_head.count > 0; ++r) {
      add_at_offsets(s + r * kBlockStride, columns_of(block, r), offsets_of(block, r),
                     {terms.by_head + head * by_head.count, by_head});
    }
    for (int64_t r = 0; r < block.rows && by_query.count > 0; ++r) {
      add_at_offsets(s + r * kBlockStride, columns_of(block, r), offsets_of(block, r),
                     {float_row(terms.by_query, sequence.q_begin + block.queries[r], head), by_query});
    }
    mask(block, s, -kInfinity);
  }
  // Writes `value` over the columns that a row does not see. Later rows see no fewer than the first.
  void mask(const GatheredBlock& block, float* s, float value) const {
    if (block.columns == block.part().end && seen_of(block, 0) == block.columns) return;
    for (int64_t r = 0; r < block.rows; ++r) fill(s + r * kBlockStride, seen_of(block, r), block.part().end, value);
  }
  RowDropout dropout(int64_t query, int64_t first_key) const {
    return dropout_of(sequence.q_begin + query, first_key, 1);
  }
};

// Calls visit(begin, columns) for the parts of a block's keys.
template <class Visit>
void each_part(const BlocksView& view, int64_t block, const Visit& visit) {
  const int64_t size = view.problem.given.block, end = std::min((block + 1) * size, view.sequence.k_length);
  for (int64_t begin = block * size; begin < end; begin += kBlocksColumns) {
    visit(begin, std::min(kBlocksColumns, end - begin));
  }
}

// Asks for the row of the query that comes a few after query r: `rows` has one for each query of the sequence, of
// `floats`.
inline void prefetch_gathered(const GatheredBlock& block, int64_t r, const float* rows, int64_t floats) {
  constexpr int64_t kAhead = 12;
  if (r + kAhead >= block.rows) return;
  const float* row = rows + block.queries[r + kAhead] * floats;
  for (int64_t i = 0; i < floats; i += 16) __builtin_prefetch(row + i, 1);
}

inline void copy_floats(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kLanes) store(to + i, load(from + i));
}

}  // namespace
}  // namespace fovea::kernels
