#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <variant>

#include "fovea/kernels/attention/cpu/clause_mix.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/cpu/scratch.h"
#include "fovea/kernels/attention/dropout.h"

#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/attention/cpu/row_dots-inl.h"

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

struct MixForwardBuffers {
  float *keys, *values, *scores, *factors, *out, *rare;
};
inline MixForwardBuffers mix_forward_buffers(Arena& arena, const ClauseMixShape& shape, int64_t length) {
  const int64_t padded = round_up(shape.head_dim, kLanes), rows = chunk_rows(length, length);
  return {.keys = arena.take(panel_floats(length, shape.head_dim)),
          .values = arena.take(round_up(length, kLanes) * padded),
          .scores = arena.take(rows * score_stride(length)),
          .factors = arena.take(rows),
          .out = arena.take(rows * padded),
          .rare = arena.take(score_stride(length) + 2 * (shape.levels + 1) * length)};
}

class MixForwardTask : ClauseMixTaskBase {
 public:
  MixForwardTask(const ClauseMixShape& shape, const ClauseMixForward& job, const ClauseMixTask& task, float* scratch)
      : ClauseMixTaskBase(shape, task, job.p),
        arena_(scratch),
        b_(mix_forward_buffers(arena_, shape, task.length)),
        queries_(rows(job.q)),
        keys_(rows(job.k)),
        values_(rows(job.v)),
        out_(rows(job.out)),
        dots_(queries_, keys_, shape.head_dim, Words::kFloats) {}

  void run() {
    const TokenList tokens{task_.begin, 1, nullptr};
    dots_.pack_right(tokens, length(), b_.keys);
    pack_rows(values_, tokens, length(), shape_.head_dim, b_.values);
    const int64_t step = chunk_rows(length(), length());
    for (int64_t first = 0; first < length(); first += step) chunk(first, std::min(step, length() - first));
  }

 private:
  const float* queries_at(int64_t first) const {
    return static_cast<const float*>(queries_.data) + (task_.begin + first) * queries_.stride;
  }

  void chunk(int64_t first, int64_t rows) {
    dots_.multiply({queries_at(first), queries_.stride, b_.keys, b_.scores, stride_, shape_.scale}, rows, part());
    mask_end(b_.scores, rows);
    SoftmaxRow().weigh({b_.scores, stride_, part().size(), nullptr, 0}, rows, b_.factors);
    for (int64_t r = 0; r < rows; ++r) mix_row(first + r, r);
    multiply({.a = b_.scores,
              .a_row = stride_,
              .b = b_.values,
              .b_step = padded_,
              .c = b_.out,
              .c_row = padded_,
              .depth = length(),
              .factor = b_.factors,
              .factor_step = 1},
             rows, padded_ / kLanes);
    unpack_rows({b_.out, padded_, shape_.head_dim}, out_, {task_.begin + first, 1, nullptr}, rows);
  }

  void mix_row(int64_t query, int64_t r) {
    float* e = b_.scores + r * stride_;
    MixRow row = row_of(query);
    if (!add_clauses(e, b_.factors[r], row)) return mix_rare_row(query, r, row);
    scale_parts(e, row, factors_of(row), b_.factors[r] == 0 ? 1 : b_.factors[r], part().end);
  }

  void mix_rare_row(int64_t query, int64_t r, const MixRow& row) {
    float* scores = b_.rare;
    auto* parts = reinterpret_cast<double*>(b_.rare + stride_);
    dots_.multiply({queries_at(query), queries_.stride, b_.keys, scores, stride_, shape_.scale}, 1, part());
    exact_parts(scores, row, parts);
    float* e = b_.scores + r * stride_;
    for (int64_t j = 0; j < length(); ++j)
      e[j] = static_cast<float>(mixed([&](size_t l) { return parts[static_cast<int64_t>(l) * length() + j]; }));
    b_.factors[r] = 1;
  }

  Arena arena_;
  MixForwardBuffers b_;
  HeadRows queries_, keys_, values_, out_;
  RowDots dots_;
};

struct MixBackwardBuffers {
  float *key_panels, *value_panels, *keys;
  float *queries, *grad_out, *grad_queries;
  float *weights, *grads, *factors;
  float *grad_keys, *grad_values, *rare;
};
inline MixBackwardBuffers mix_backward_buffers(Arena& arena, const ClauseMixShape& shape, int64_t length) {
  const int64_t padded = round_up(shape.head_dim, kLanes), rows = chunk_rows(length, length);
  const int64_t scores = rows * score_stride(length);
  return {.key_panels = arena.take(panel_floats(length, shape.head_dim)),
          .value_panels = arena.take(panel_floats(length, shape.head_dim)),
          .keys = arena.take(round_up(length, kLanes) * padded),
          .queries = arena.take(rows * padded),
          .grad_out = arena.take(rows * padded),
          .grad_queries = arena.take(rows * padded),
          .weights = arena.take(scores),
          .grads = arena.take(scores),
          .factors = arena.take(rows),
          .grad_keys = arena.take(length * padded),
          .grad_values = arena.take(length * padded),
          .rare = arena.take(score_stride(length) + 2 * (shape.levels + 1) * length)};
}

class MixBackwardTask : ClauseMixTaskBase {
 public:
  MixBackwardTask(const ClauseMixShape& shape, const ClauseMixBackward& job, const ClauseMixTask& task, float* scratch)
      : ClauseMixTaskBase(shape, task, job.p),
        arena_(scratch),
        b_(mix_backward_buffers(arena_, shape, task.length)),
        queries_(rows(job.q)),
        keys_(rows(job.k)),
        grad_out_(rows(job.grad_out)),
        grad_q_(rows(job.grad_q)),
        grad_k_(rows(job.grad_k)),
        grad_v_(rows(job.grad_v)),
        dots_(queries_, keys_, shape.head_dim, Words::kFloats),
        grad_dots_(grad_out_, rows(job.v), shape.head_dim, Words::kFloats) {}

  void run(double* grad_p) {
    const TokenList tokens{task_.begin, 1, nullptr};
    dots_.pack_right(tokens, length(), b_.key_panels);
    grad_dots_.pack_right(tokens, length(), b_.value_panels);
    pack_rows(keys_, tokens, length(), shape_.head_dim, b_.keys);
    fill(b_.grad_keys, 0, length() * padded_, 0);
    fill(b_.grad_values, 0, length() * padded_, 0);
    const int64_t step = chunk_rows(length(), length());
    for (int64_t first = 0; first < length(); first += step) chunk(first, std::min(step, length() - first), grad_p);
    unpack_rows({b_.grad_keys, padded_, shape_.head_dim}, grad_k_, tokens, length());
    unpack_rows({b_.grad_values, padded_, shape_.head_dim}, grad_v_, tokens, length());
  }

 private:
  void chunk(int64_t first, int64_t rows, double* grad_p) {
    const TokenList tokens{task_.begin + first, 1, nullptr};
    pack_rows(queries_, tokens, rows, shape_.head_dim, b_.queries);
    pack_rows(grad_out_, tokens, rows, shape_.head_dim, b_.grad_out);
    dots_.multiply({b_.queries, padded_, b_.key_panels, b_.weights, stride_, shape_.scale}, rows, part());
    grad_dots_.multiply({b_.grad_out, padded_, b_.value_panels, b_.grads, stride_}, rows, part());
    mask_end(b_.weights, rows);
    SoftmaxRow().weigh({b_.weights, stride_, part().size(), nullptr, 0}, rows, b_.factors);
    for (int64_t r = 0; r < rows; ++r) backward_row(first + r, r, grad_p);
    multiply({.a = b_.grads,
              .a_row = stride_,
              .b = b_.keys,
              .b_step = padded_,
              .c = b_.grad_queries,
              .c_row = padded_,
              .depth = length(),
              .factor = &shape_.scale},
             rows, padded_ / kLanes);
    unpack_rows({b_.grad_queries, padded_, shape_.head_dim}, grad_q_, tokens, rows);
    const float one = 1;
    Product product = {.a = b_.grads,
                       .a_row = 1,
                       .a_step = stride_,
                       .b = b_.queries,
                       .b_step = padded_,
                       .c = b_.grad_keys,
                       .c_row = padded_,
                       .depth = rows,
                       .factor = &shape_.scale,
                       .add = true};
    multiply(product, length(), padded_ / kLanes);
    product.a = b_.weights;
    product.b = b_.grad_out;
    product.c = b_.grad_values;
    product.factor = &one;
    multiply(product, length(), padded_ / kLanes);
  }

  // Given the mean gradient d_l of each part's weights, adds that of the levels' p.
  template <class D>
  void add_level_gradients(const D& d, double* grad_p) const {
    double outer = 1;
    for (size_t l = 0; l < static_cast<size_t>(shape_.levels); ++l) {
      grad_p[l] += outer * (mixed(d, l + 1) - d(l));
      outer *= double{p_[l]};
    }
  }

  // Exponentials and gradients of weights to weights and gradients of scores.
  void backward_row(int64_t query, int64_t r, double* grad_p) {
    float *e = b_.weights + r * stride_, *g = b_.grads + r * stride_;
    MixRow row = row_of(query);
    if (!add_clauses(e, b_.factors[r], row)) return backward_rare_row(r, row, grad_p);
    const auto levels = static_cast<size_t>(row.levels);
    std::array<float, kMixLevels + 1> means{};
    for (size_t l = 0; l <= levels; ++l) {
      if (l > 0 && row.begin[l] == row.begin[l - 1] && row.end[l] == row.end[l - 1]) {
        means[l] = means[l - 1];
        continue;
      }
      F total = set(0);
      over_columns(row.begin[l], row.end[l],
                   [&](int64_t j, M in) { total = fma(select(in, load(e + j), set(0)), load(g + j), total); });
      means[l] = sum(total) * row.inverse[l];
    }
    add_level_gradients([&](size_t l) { return double{means[l]}; }, grad_p);
    const auto factors = factors_of(row);
    // centres[own], for keys in the clause of level `own` but not of a deeper one: the sum of c_l means[l] / Z_l.
    std::array<float, kMixLevels + 1> centres{};
    for (size_t own = 0; own <= levels; ++own)
      centres[own] = static_cast<float>(
          mixed([&](size_t l) { return l <= own ? double{means[l]} * double{row.inverse[l]} : 0.0; }));
    for (int64_t j = 0; j < part().end; j += kLanes) {
      F factor = set(factors[0]), centre = set(centres[0]);
      for (size_t l = 1; l <= levels && row.begin[l] < j + kLanes && row.end[l] > j; ++l) {
        const M in = inside(j, row.begin[l], row.end[l]);
        factor = select(in, set(factors[l]), factor);
        centre = select(in, set(centres[l]), centre);
      }
      const F x = load(e + j);
      store(e + j, x * factor);
      store(g + j, x * fma(factor, load(g + j), set(0) - centre));
    }
  }

  void backward_rare_row(int64_t r, const MixRow& row, double* grad_p) {
    float* scores = b_.rare;
    auto* parts = reinterpret_cast<double*>(b_.rare + stride_);
    float *e = b_.weights + r * stride_, *g = b_.grads + r * stride_;
    dots_.multiply({b_.queries + r * padded_, padded_, b_.key_panels, scores, stride_, shape_.scale}, 1, part());
    exact_parts(scores, row, parts);
    const auto probability = [&](size_t l, int64_t j) { return parts[static_cast<int64_t>(l) * length() + j]; };
    std::array<double, kMixLevels + 1> means{};
    for (size_t l = 0; l <= static_cast<size_t>(row.levels); ++l)
      for (int64_t j = row.begin[l]; j < row.end[l]; ++j) means[l] += probability(l, j) * double{g[j]};
    add_level_gradients([&](size_t l) { return means[l]; }, grad_p);
    for (int64_t j = 0; j < length(); ++j) {
      e[j] = static_cast<float>(mixed([&](size_t l) { return probability(l, j); }));
      g[j] = static_cast<float>(mixed([&](size_t l) { return probability(l, j) * (double{g[j]} - means[l]); }));
    }
  }

  Arena arena_;
  MixBackwardBuffers b_;
  HeadRows queries_, keys_, grad_out_, grad_q_, grad_k_, grad_v_;
  RowDots dots_, grad_dots_;
};

}  // namespace

template <Isa kLevel>
int64_t ClauseMixKernel<kLevel>::scratch(const ClauseMixShape& shape, int64_t length, bool backward) {
  Arena arena;
  if (backward) {
    mix_backward_buffers(arena, shape, length);
  } else {
    mix_forward_buffers(arena, shape, length);
  }
  return arena.used();
}
template <Isa kLevel>
void ClauseMixKernel<kLevel>::run(const ClauseMixShape& shape, const ClauseMixForward& job, const ClauseMixTask& task,
                                  float* scratch) {
  MixForwardTask(shape, job, task, scratch).run();
}
template <Isa kLevel>
void ClauseMixKernel<kLevel>::run(const ClauseMixShape& shape, const ClauseMixBackward& job, const ClauseMixTask& task,
                                  float* scratch, double* grad_p) {
  MixBackwardTask(shape, job, task, scratch).run(grad_p);
}
template struct ClauseMixKernel<kThisIsa>;

}  // namespace fovea::kernels

#include "fovea/kernels/simd/isa_end-inl.h"
