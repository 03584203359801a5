#include "fovea/kernels/attention/cpu/bf16_products.h"

namespace fovea::kernels {
namespace {

// The exponent's bits in numbers whose last digit counts 2^-63, and so in products of two of them 2^-126 and more:
// every sum of these is zero or in the normal range. 2^(bits - 134) is a number's last digit.
constexpr int kLeastOfBoth = 2 * 134 - 126;
constexpr int64_t kFewQueries = 16;

const uint16_t* head_of(const Rows<const void>& rows, int64_t head) {
  return static_cast<const uint16_t*>(rows.data) + head * rows.head_stride;
}

bool fit(const Bf16Rows& left, const Bf16Rows& right) {
  return with_isa([&](auto tag) {
    using Scan = Bf16Scan<decltype(tag)::kIsa>;
    const int least = Scan::least_exponent(left);
    if (least == 0) return false;
    const int least_right = Scan::least_exponent(right);
    return least_right > 0 && least + least_right >= kLeastOfBoth;
  });
}

}  // namespace

Bf16Flags::Bf16Flags(const AttentionProblem& problem, const Factors& factors, const Pays& pays, Executor& executor)
    : num_heads_(problem.num_heads) {
  const int64_t width = problem.head_dim;
  // Processors with AMX are left out: they multiply floats faster than pairs of bfloat16 (isa.cc).
  if (problem.dtype != DType::kBFloat16 || width % 2 != 0 || !has_bf16_pairs()) return;
  std::vector<int64_t> read;  // none in a batch of sentences
  const auto all = static_cast<int64_t>(problem.sequences.size()) * num_heads_;
  for (int64_t index = 0; index < all; ++index) {
    const int64_t sequence = index / num_heads_;
    const bool few = problem.sequences[static_cast<size_t>(sequence)].q_length < kFewQueries;
    if (!few && pays(sequence, index % num_heads_)) read.push_back(index);
  }
  if (read.empty()) return;
  flags_.resize(static_cast<size_t>(all));
  executor.run(static_cast<int64_t>(read.size()), [&](int64_t i, int) {
    const int64_t index = read[static_cast<size_t>(i)], head = index % num_heads_;
    const Sequence& s = problem.sequences[static_cast<size_t>(index / num_heads_)];
    const auto& [left, right, key_tokens] = factors;
    const Bf16Rows queries = {head_of(left, head), left.token_stride, s.q_begin, s.q_length, width};
    const Bf16Rows keys = {
        head_of(right, problem.key_head(head)), right.token_stride, s.k_begin, s.k_length, width, key_tokens};
    flags_[static_cast<size_t>(index)] = fit(queries, keys) ? 1 : 0;
  });
}

namespace {

// Exponents' bits: at least 2^-55 and below 2^64. Products of two, and their sums, stay in the normal range; of weights
// below 1 only those are lost that are nothing beside the others.
constexpr int kLeastOfTiles = 72, kGreatestOfTiles = 190;

bool suits_tiles(const Bf16Rows& rows) {
  return with_isa([&](auto tag) {
    using Scan = Bf16Scan<decltype(tag)::kIsa>;
    return Scan::least_exponent(rows) >= kLeastOfTiles && Scan::greatest_exponent(rows) <= kGreatestOfTiles;
  });
}

}  // namespace

TiledHeads::TiledHeads(const AttentionProblem& problem, const Arrays& by_query, const Arrays& by_key,
                       Executor& executor)
    : num_heads_(problem.num_heads) {
  const int64_t width = problem.head_dim;
  if (problem.dtype != DType::kBFloat16 || width % 2 != 0 || !has_tiles()) return;
  const auto all = static_cast<int64_t>(problem.sequences.size()) * num_heads_;
  flags_.resize(static_cast<size_t>(all));
  executor.run(all, [&](int64_t index, int) {
    const Sequence& s = problem.sequences[static_cast<size_t>(index / num_heads_)];
    const int64_t head = index % num_heads_;
    bool suits = s.q_length >= kFewQueries;
    for (const Rows<const void>& array : by_query) {
      suits = suits && suits_tiles({head_of(array, head), array.token_stride, s.q_begin, s.q_length, width});
    }
    for (const Rows<const void>& array : by_key) {
      suits = suits &&
              suits_tiles({head_of(array, problem.key_head(head)), array.token_stride, s.k_begin, s.k_length, width});
    }
    flags_[static_cast<size_t>(index)] = suits ? 1 : 0;
  });
}

}  // namespace fovea::kernels
