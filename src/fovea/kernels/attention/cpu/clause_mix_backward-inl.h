#pragma once
#include "fovea/kernels/attention/cpu/clause_mix-inl.h"

namespace fovea::kernels {
namespace {

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
    for (int64_t r = 0; r < rows; ++r) grade_row(first + r, r, grad_p);
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
  void grade_levels(const D& d, double* grad_p) const {
    double outer = 1;
    for (size_t l = 0; l < static_cast<size_t>(shape_.levels); ++l) {
      grad_p[l] += outer * (mixed(d, l + 1) - d(l));
      outer *= double{p_[l]};
    }
  }

  // Exponentials and gradients of weights to weights and gradients of scores.
  void grade_row(int64_t query, int64_t r, double* grad_p) {
    float *e = b_.weights + r * stride_, *g = b_.grads + r * stride_;
    MixRow row = row_of(query);
    if (!add_clauses(e, b_.factors[r], row)) return grade_rare_row(r, row, grad_p);
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
    grade_levels([&](size_t l) { return double{means[l]}; }, grad_p);
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

  void grade_rare_row(int64_t r, const MixRow& row, double* grad_p) {
    float* scores = b_.rare;
    auto* parts = reinterpret_cast<double*>(b_.rare + stride_);
    float *e = b_.weights + r * stride_, *g = b_.grads + r * stride_;
    dots_.multiply({b_.queries + r * padded_, padded_, b_.key_panels, scores, stride_, shape_.scale}, 1, part());
    exact_parts(scores, row, parts);
    const auto probability = [&](size_t l, int64_t j) { return parts[static_cast<int64_t>(l) * length() + j]; };
    std::array<double, kMixLevels + 1> means{};
    for (size_t l = 0; l <= static_cast<size_t>(row.levels); ++l)
      for (int64_t j = row.begin[l]; j < row.end[l]; ++j) means[l] += probability(l, j) * double{g[j]};
    grade_levels([&](size_t l) { return means[l]; }, grad_p);
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
}  // namespace fovea::kernels
