#pragma once
#include "fovea/kernels/attention/cpu/clause_mix-inl.h"

namespace fovea::kernels {
namespace {

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

}  // namespace
}  // namespace fovea::kernels
