#include "fovea/kernels/attention/cpu/screen_copy.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace fovea::kernels {
namespace {

// This number of tokens gives a group enough tasks to keep many threads busy.
constexpr int64_t kGroupTokens = 32768;
// The floats of a head whose pages a core's TLB can hold while four arrays are in use; a larger head is better copied
// to a workspace, which has huge pages.
constexpr int64_t kLeftInPlace = 1 << 19;
constexpr int64_t kAtOnce = 16;

uint16_t to_bf16(float x) {
  if (std::isnan(x)) return 0x7fc0;
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace

void read_row(const OneHead<const void>& from, int64_t token, float* out) {
  const int64_t at = from.at(token), head_dim = from.head_dim;
  if (from.dtype == DType::kFloat32) {
    std::memcpy(out, static_cast<const float*>(from.rows.data) + at, static_cast<size_t>(head_dim) * sizeof(float));
  } else {
    const uint16_t* in = static_cast<const uint16_t*>(from.rows.data) + at;
    for (int64_t i = 0; i < head_dim; ++i) {
      const uint32_t bits = static_cast<uint32_t>(in[i]) << 16;
      std::memcpy(out + i, &bits, sizeof bits);
    }
  }
  for (int64_t i = head_dim; i < padded_width(head_dim); ++i) out[i] = 0;
}

void write_row(const OneHead<void>& to, int64_t token, const float* x, float factor) {
  const int64_t at = to.at(token), head_dim = to.head_dim;
  if (to.dtype == DType::kFloat32) {
    float* out = static_cast<float*>(to.rows.data) + at;
    int64_t i = 0;
    for (; i + kAtOnce <= head_dim; i += kAtOnce) {  // a known number, for the compiler's vectors
      for (int64_t j = 0; j < kAtOnce; ++j) out[i + j] = x[i + j] * factor;
    }
    for (; i < head_dim; ++i) out[i] = x[i] * factor;
  } else {
    uint16_t* out = static_cast<uint16_t*>(to.rows.data) + at;
    for (int64_t i = 0; i < head_dim; ++i) out[i] = to_bf16(x[i] * factor);
  }
}

std::vector<std::vector<Piece>> piece_groups(const AttentionProblem& problem) {
  std::vector<std::vector<Piece>> groups;
  int64_t tokens = kGroupTokens;
  for (const Sequence& sequence : problem.sequences) {
    if (sequence.q_length == 0 && sequence.k_length == 0) continue;
    for (int64_t head = 0; head < problem.num_heads; ++head) {
      const bool begins = head == problem.keys.first_head(problem.key_head(head));
      if (begins && tokens >= kGroupTokens) {
        groups.emplace_back();
        tokens = 0;
      }
      groups.back().push_back({&sequence, head});
      tokens += std::max(sequence.q_length, sequence.k_length);
    }
  }
  return groups;
}

std::vector<KeyPieces> key_pieces(const AttentionProblem& problem, const std::vector<Piece>& group) {
  std::vector<KeyPieces> all;
  for (size_t i = 0; i < group.size(); ++i) {
    const Piece keys = {group[i].sequence, problem.key_head(group[i].head)};
    if (all.empty() || all.back().keys != keys) all.push_back({keys, i, i});
    all.back().end = i + 1;
  }
  return all;
}

void HeadCopy::read(const OneHead<const void>& from, int64_t first, int64_t count) {
  const int64_t width = padded_width(from.head_dim);
  const Rows<const void>& rows = from.rows;
  const bool in_place = from.dtype == DType::kFloat32 && from.head_dim == width && rows.token_stride == width;
  if (in_place && count * width <= kLeftInPlace) {
    rows_ = static_cast<const float*>(rows.data) + from.at(first);
    return;
  }
  float* to = copy_.at_least(count * width);
  for (int64_t i = 0; i < count; ++i) read_row(from, first + i, to + i * width);
  rows_ = to;
}

}  // namespace fovea::kernels
