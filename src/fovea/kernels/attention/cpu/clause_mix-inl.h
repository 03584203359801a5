#pragma once
#include "fovea/kernels/attention/cpu/clause_mix.h"
#include "fovea/kernels/attention/cpu/row_dots-inl.h"

// Shared by forward and backward of the mix: a row's parts and their sums.
namespace fovea::kernels {
namespace {

constexpr size_t kMixLevels = static_cast<size_t>(kMostClauseLevels);

// Below this sum of exponentials under the row's maximum, a clause's weights have lost digits.
constexpr float kLeastClauseSum = 0x1p-90F;

// A row's parts, from all keys (0) to the deepest level, as columns [begin, end) of the sequence, with their sums.
struct MixRow {
  int64_t levels = 0;
  std::array<int64_t, kMixLevels + 1> begin{}, end{};
  std::array<float, kMixLevels + 1> inverse{};  // 1 / sum of exponentials
};

// The lanes of columns j ... that lie in [begin, end).
inline M inside(int64_t j, int64_t begin, int64_t end) {
  const F column = to_float(iota() + static_cast<int32_t>(j));
  return both(less_equal(set(static_cast<float>(begin)), column), less(column, set(static_cast<float>(end))));
}

// work(j, mask) for the vectors that touch [begin, end).
template <class Work>
inline void over_columns(int64_t begin, int64_t end, const Work& work) {
  for (int64_t j = round_down(begin, kLanes); j < end; j += kLanes) work(j, inside(j, begin, end));
}

// The linear interpolation of at::lerp: a where p is 0 or b is a.
inline float between(float a, float b, float p) { return p < 0.5F ? a + p * (b - a) : b - (b - a) * (1 - p); }

class ClauseMixTaskBase {
 public:
  ClauseMixTaskBase(const ClauseMixShape& shape, const ClauseMixTask& task, const float* p)
      : shape_(shape), task_(task), padded_(round_up(shape.head_dim, kLanes)), stride_(score_stride(task.length)) {
    for (int64_t l = 0; l < shape.levels; ++l) p_[static_cast<size_t>(l)] = p[l * shape.heads + task.head];
  }

 protected:
  int64_t length() const { return task_.length; }
  template <class T>
  HeadRows rows(const Rows<T>& of) const {
    return head_rows(of, task_.head, DType::kFloat32);
  }
  ColumnPart part() const { return {0, round_up(task_.length, kLanes)}; }

  MixRow row_of(int64_t query) const {
    MixRow row{.levels = shape_.levels};
    row.end[0] = length();
    const auto tokens = static_cast<size_t>(shape_.offsets.back());
    for (size_t l = 1; l <= static_cast<size_t>(shape_.levels); ++l) {
      const size_t at = (l - 1) * tokens + static_cast<size_t>(task_.begin + query);
      row.begin[l] = shape_.begins[at] - task_.begin;
      row.end[l] = shape_.ends[at] - task_.begin;
    }
    return row;
  }

  void mask_end(float* scores, int64_t rows) const {
    for (int64_t r = 0; r < rows; ++r) fill(scores + r * stride_, length(), part().end, -kInfinity);
  }

  // Sums of a row's exponentials in its clauses; false if one of them has lost digits.
  bool add_clauses(const float* e, float inverse, MixRow& row) const {
    row.inverse[0] = inverse;
    for (size_t l = 1; l <= static_cast<size_t>(row.levels); ++l) {
      if (row.begin[l] == row.begin[l - 1] && row.end[l] == row.end[l - 1]) {
        row.inverse[l] = row.inverse[l - 1];
        continue;
      }
      F total = set(0);
      over_columns(row.begin[l], row.end[l], [&](int64_t j, M in) { total = total + select(in, load(e + j), set(0)); });
      const float all = sum(total);
      if (!(all >= kLeastClauseSum)) return false;
      row.inverse[l] = 1 / all;
    }
    return true;
  }

  // The factors of exponentials that lie in the clause of level l but of no deeper one, for l = 0 ... levels.
  std::array<float, kMixLevels + 1> factors_of(const MixRow& row) const {
    std::array<float, kMixLevels + 1> factors{};
    for (size_t own = 0; own <= static_cast<size_t>(row.levels); ++own) {
      float inner = own == static_cast<size_t>(row.levels) ? row.inverse[own] : 0;
      for (size_t l = static_cast<size_t>(row.levels); l-- > 0;)
        inner = between(l <= own ? row.inverse[l] : 0, inner, p_[l]);
      factors[own] = inner;
    }
    return factors;
  }

  // Exponentials to weights, in units of `unit`.
  static void scale_parts(float* e, const MixRow& row, const std::array<float, kMixLevels + 1>& factors, float unit,
                          int64_t end) {
    const auto levels = static_cast<size_t>(row.levels);
    for (int64_t j = 0; j < end; j += kLanes) {
      F factor = set(factors[0] / unit);
      for (size_t l = 1; l <= levels && row.begin[l] < j + kLanes && row.end[l] > j; ++l)
        factor = select(inside(j, row.begin[l], row.end[l]), set(factors[l] / unit), factor);
      store(e + j, load(e + j) * factor);
    }
  }

  // The probability of each part's keys, [levels + 1][length], in double, from the scores: where a clause's sum is too
  // small beside the row's.
  void exact_parts(const float* scores, const MixRow& row, double* parts) const {
    for (size_t l = 0; l <= static_cast<size_t>(row.levels); ++l) {
      double* own = parts + static_cast<int64_t>(l) * length();
      std::fill_n(own, length(), 0.0);
      double top = -INFINITY, total = 0;
      for (int64_t j = row.begin[l]; j < row.end[l]; ++j) top = std::max(top, double{scores[j]});
      for (int64_t j = row.begin[l]; j < row.end[l]; ++j) total += own[j] = std::exp(double{scores[j]} - top);
      for (int64_t j = row.begin[l]; j < row.end[l]; ++j) own[j] /= total;
    }
  }

  // sum over levels of c_l x_l, c_0 = 1 - p_1, c_1 = p_1 (1 - p_2), ...
  template <class X>
  double mixed(const X& x, size_t from = 0) const {
    const auto levels = static_cast<size_t>(shape_.levels);
    double inner = x(levels);
    for (size_t l = levels; l-- > from;) inner = (1 - double{p_[l]}) * x(l) + double{p_[l]} * inner;
    return inner;
  }

  const ClauseMixShape& shape_;
  const ClauseMixTask& task_;
  int64_t padded_, stride_;
  std::array<float, kMixLevels> p_{};
};

}  // namespace
}  // namespace fovea::kernels
