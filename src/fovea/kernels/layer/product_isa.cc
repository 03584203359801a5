#include "fovea/kernels/layer/product.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "fovea/kernels/layer/at_level.h"
#include "fovea/kernels/layer/scratch.h"
// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/layer/row_block-inl.h"

namespace fovea::kernels {
namespace {

// Depth of a TokenSum's step through the tokens, and most rows and columns of its piece. A step's factors and the sums
// stay in the second cache, which has 512 KiB on many processors with AVX2. Sums pass through registers once a step,
// which beside products of tiles takes its time.
#if defined(FOVEA_TILES)
constexpr int64_t kTokenBlock = 512;
#else
constexpr int64_t kTokenBlock = FOVEA_ISA == 1 ? 128 : 256;
#endif
constexpr int64_t kMinSumRows = 64, kMaxSumRows = 256, kSumColumns = FOVEA_ISA == 1 ? 256 : 8 * kTileColumns;

template <class Step, class T>
void pack_panel(const RowProduct<T>& job, int64_t panel, float* to) {
  const int64_t first = panel * kTileColumns, columns = std::min<int64_t>(kTileColumns, job.columns - first);
  const T* from = job.b + first * job.b_column_stride;
  if (job.b_column_stride == 1) {
    pack_panels<Step>(Matrix<T>{from, nullptr, job.b_depth_stride, 0}, job.depth, columns, to, 0);
  } else {
    pack_transposed<Step>(from, job.b_column_stride, job.depth, columns, to);
  }
}

template <class T>
void run_job(const RowProduct<T>& job, Executor& executor) {
  using Step = typename StepOf<T>::type;
  const int64_t panels = pieces_of(job.columns, kTileColumns), panel_size = steps_of<Step>(job.depth) * kTileColumns;
  float* packed = thread_scratch(Use::kPanels).get<float>(panels * panel_size);
  executor.run(panels, [&](int64_t p, int) { pack_panel<Step>(job, p, packed + p * panel_size); });
  const RowsOf<T, T> rows{.a = {job.a, job.mask, job.a_stride, job.mask_stride},
                          .panels = packed,
                          .bias = job.bias,
                          .out = job.out,
                          .out_stride = job.out_stride,
                          .columns = job.columns,
                          .depth = job.depth,
                          .relu = job.relu};
  in_pieces(job.rows, executor, [&](int64_t first, int64_t count) { row_block(rows, first, count); });
}

// sums[r] += the elements of row r of `left`, units along the rows.
template <class Step>
void add_row_sums(const LeftFactor& left, int64_t steps, int64_t rows, float* sums) {
  constexpr int64_t kWidth = std::min<int64_t>(kStripRows, kLanes);
  for (int64_t r = 0; r < rows; r += kWidth) {
    const int64_t n = std::min(kWidth, rows - r);
    const char* units = left.row<Line::kAlongRows>(r);
    F sum = load_part(sums + r, n);
    for (int64_t s = 0; s < steps; ++s, units += left.step_bytes) {
      const F unit = load_part(reinterpret_cast<const float*>(units), n);
      if constexpr (Step::kDepth == 1) {
        sum = sum + unit;
      } else {
        sum = sum + as_float((I)((U)as_int(unit) << 16)) + as_float((I)((U)as_int(unit) & 0xffff0000U));
      }
    }
    store_part(sums + r, sum, n);
  }
}

// One piece of a TokenSum: rows x columns sums, held in this thread's scratch while the tokens pass by.
template <class T>
class SumPiece {
 public:
  using Step = typename StepOf<T>::type;

  SumPiece(const TokenSum<T>& job, int64_t row, int64_t rows, int64_t column)
      : job_(job),
        row_(row),
        column_(column),
        rows_(std::min(rows, job.rows - row)),
        padded_rows_(pieces_of(rows_, kLanes) * kLanes),
        columns_(std::min(kSumColumns, job.columns - column)),
        width_(pieces_of(columns_, kTileColumns) * kTileColumns) {}

  void run() {
    sums_ = thread_scratch(Use::kSums).get<float>(rows_ * width_ + padded_rows_);
    row_sums_ = sums_ + rows_ * width_;
    std::fill_n(sums_, rows_ * width_, 0.0F);
    std::fill_n(row_sums_, padded_rows_, 0.0F);
    for (int64_t token = 0; token < job_.depth; token += kTokenBlock) {
      add_tokens(token, std::min(kTokenBlock, job_.depth - token));
    }
    for (int64_t r = 0; r < rows_; ++r) {
      write_row(sums_ + r * width_, job_.out + (row_ + r) * job_.out_stride + column_, columns_);
    }
    if (wants_row_sums()) write_row(row_sums_, job_.row_sums + row_, rows_);
  }

 private:
  bool wants_row_sums() const { return job_.row_sums != nullptr && column_ == 0; }

  void add_tokens(int64_t token, int64_t depth) {
    const int64_t steps = steps_of<Step>(depth);
    LeftFactor left = left_factor(token, depth);
    if (wants_row_sums()) add_row_sums<Step>(left, steps, rows_, row_sums_);
    constexpr Line kLine = Step::kTiles ? Line::kAlongDepth : Line::kAlongRows;
    if constexpr (Step::kTiles) left = turned(left, steps);
    const SessionOf<Step> session;
    const Matrix<T> right{job_.b + token * job_.b_stride + column_, nullptr, job_.b_stride, 0};
    float* panels = thread_scratch(Use::kRight).get<float>(kTokenBlock * width_);
    pack_panels<Step>(right, depth, columns_, panels, steps * kTileColumns);
    for (int64_t column = 0; column < columns_; column += kTileColumns) {
      Accumulate add{sums_ + column, width_};
      panel_product<Step, kLine>(left, rows_, panels + column * steps, steps, add);
    }
  }

  // The tokens' elements of the rows, units along the rows.
  LeftFactor left_factor(int64_t token, int64_t depth) {
    const Matrix<T> from = Matrix<T>{job_.a, job_.mask, job_.a_stride, job_.mask_stride}.at(token, row_);
    if constexpr (Step::kTiles) {
      float* packed = thread_scratch(Use::kLeft).get<float>(kTokenBlock * padded_rows_);
      pack_depth_rows<Step>(from, depth, rows_, packed, padded_rows_);
      return {reinterpret_cast<const char*>(packed), kStripRows * 4, padded_rows_ * 4};
    } else {
      float* packed =
          thread_scratch(Use::kLeft).get<float>(strip_steps<Step>(kTokenBlock) * padded_to(rows_, kStripRows));
      return pack_strips<Step>(from, depth, rows_, packed);
    }
  }

  // Units along the rows to units along the depth.
  LeftFactor turned(const LeftFactor& left, int64_t steps) {
    float* to = thread_scratch(Use::kTokens).get<float>(padded_rows_ * kTokenBlock / 2);
    turn_units({left.data, left.step_bytes}, padded_rows_, steps, to);
    const char* rows = reinterpret_cast<const char*>(to);
    return {rows, steps * 4, 4, rows + rows_ / 16 * 16 * steps * 4, steps * 4};
  }

  const TokenSum<T>& job_;
  int64_t row_, column_, rows_, padded_rows_, columns_, width_;
  float* sums_ = nullptr;
  float* row_sums_ = nullptr;
};

// The tallest pieces that still give every thread some: how the sums are divided changes none of them.
template <class T>
int64_t rows_of_pieces(const TokenSum<T>& job, int64_t across, int threads) {
  int64_t rows = kMaxSumRows;
  while (rows > kMinSumRows && pieces_of(job.rows, rows) * across < 2 * threads) rows /= 2;
  return rows;
}

template <class T>
void run_job(const TokenSum<T>& job, Executor& executor) {
  const int64_t across = pieces_of(job.columns, kSumColumns);
  const int64_t rows = rows_of_pieces(job, across, executor.num_threads());
  executor.run(pieces_of(job.rows, rows) * across,
               [&](int64_t p, int) { SumPiece<T>(job, p / across * rows, rows, p % across * kSumColumns).run(); });
}

}  // namespace

template <Isa kLevel, class... Job>
void AtLevel<kLevel, Job...>::run(const Job&... job, Executor& executor) {
  run_job(job..., executor);
}
template struct AtLevel<kThisIsa, RowProduct<float>>;
template struct AtLevel<kThisIsa, RowProduct<uint16_t>>;
template struct AtLevel<kThisIsa, TokenSum<float>>;
template struct AtLevel<kThisIsa, TokenSum<uint16_t>>;

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
