#include "fovea/kernels/indexer/block_topk_isa.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

// Standard headers end here.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/attention/cpu/pack-inl.h"
#include "fovea/kernels/attention/cpu/select-inl.h"

namespace fovea::kernels {
namespace {

constexpr int64_t kMostQueries = 64;               // of a piece
constexpr int64_t kMostScores = int64_t{1} << 16;  // of a piece

int64_t row_width(const BlockTopk& job) { return round_up(job.head_dim, kLanes); }
// The depth of the products: bounds have a half for the greatest keys and one for the least.
int64_t block_depth(const BlockTopk& job) { return row_width(job) * (job.score == BlockScore::kBounds ? 2 : 1); }

// A block of keys under one head, and where its summary lies: the halves of bounds are half_step apart.
struct BlockRows {
  HeadRows rows;
  TokenList at;
  int64_t count = 0, head_dim = 0;
  BlockScore score = BlockScore::kMean;
  int64_t half_step = 0;
};
void summarise_block(const BlockRows& keys, float* to) {
  const bool bounds = keys.score == BlockScore::kBounds;
  with_loader(keys.rows, keys.head_dim, [&](const auto& load_row) {
    for (int64_t i = 0; i < round_up(keys.head_dim, kLanes); i += kLanes) {
      F sum = load_row(keys.at[0], i), low = sum, high = sum;
      for (int64_t t = 1; t < keys.count; ++t) {
        const F key = load_row(keys.at[t], i);
        sum = sum + key;
        low = select(is_nan(low), low, min(low, key)), high = select(is_nan(high), high, max(high, key));
      }
      if (bounds) {  // finite or NaN: of the two products with a query's number, one is zero
        store(to + i, max(set(kLowest), min(set(-kLowest), high)));
        store(to + keys.half_step + i, max(set(kLowest), min(set(-kLowest), low)));
      } else {
        store(to + i, sum / set(static_cast<float>(keys.count)));
      }
    }
  });
}

// The queries as the products read them: [count, depth].
void pack_queries(const BlockTopk& job, const BlockPiece& piece, const Sequence& sequence, float* to) {
  const int64_t width = row_width(job), depth = block_depth(job);
  const HeadRows rows = head_rows(job.q, piece.head, job.dtype);
  with_loader(rows, job.head_dim, [&](const auto& load_row) {
    for (int64_t n = 0; n < piece.count; ++n) {
      for (int64_t i = 0; i < width; i += kLanes) {
        const F q = load_row(sequence.q_begin + piece.first + n, i);
        if (job.score == BlockScore::kMean) {
          store(to + n * depth + i, q);
          continue;
        }
        store(to + n * depth + i, max(set(0), q));  // NaN stays
        store(to + n * depth + width + i, min(set(0), q));
      }
    }
  });
}

// The least score of the chosen ones among a query's other blocks, or -infinity if all are chosen; scores[reach.own] is
// lost. scores [score_row(blocks)]
float least_chosen(const BlockTopk& job, const BlockReach& reach, float* scores) {
  const int64_t wanted = job.best - 1, end = reach.end, whole = round_up(end, kLanes);
  if (wanted == 0 || end - (reach.own < end ? 1 : 0) <= wanted) return -kInfinity;
  for (int64_t m = 0; m < end; ++m) {
    const float score = scores[m];
    scores[m] = score != score ? kInfinity : score < kLowest ? kLowest : score;
  }
  for (int64_t m = end; m < whole; ++m) scores[m] = -kInfinity;
  if (reach.own < end) scores[reach.own] = -kInfinity;
  return kth_greatest(scores, whole, wanted);
}

}  // namespace

template <Isa kIsa>
int64_t BlockSearch<kIsa>::score_row(int64_t blocks) {
  return round_up(blocks, kPanel);
}

template <Isa kIsa>
int64_t BlockSearch<kIsa>::panel_floats(const BlockTopk& job, int64_t blocks) {
  return score_row(blocks) * block_depth(job);
}

template <Isa kIsa>
BlockRoom BlockSearch<kIsa>::room(const BlockTopk& job, int64_t blocks) {
  const int64_t row = score_row(std::max<int64_t>(blocks, 1));
  const int64_t queries = std::clamp<int64_t>(kMostScores / row, 1, kMostQueries);
  return {queries, round_up(queries * (row + block_depth(job)) + kMostQueries, 16)};
}

template <Isa kIsa>
void BlockSearch<kIsa>::summarise_keys(const BlockKeys& keys, float* out) {
  const int64_t floats = summary_floats(keys.head_dim, keys.score);
  for (int64_t i = 0; i < keys.key_heads * floats; ++i) out[i] = 0;
  const int64_t half = keys.score == BlockScore::kBounds ? floats / 2 : 0;
  for (int64_t head = 0; head < keys.key_heads; ++head) {
    summarise_block({head_rows(keys.k, head, keys.dtype),
                     {keys.first, 1, nullptr, keys.places},
                     keys.count,
                     keys.head_dim,
                     keys.score,
                     half},
                    out + head * floats);
  }
}

template <Isa kIsa>
void BlockSearch<kIsa>::summarise(const BlockTopk& job, const BlockPlace& place, float* panels, float* rows) {
  const Sequence& sequence = job.sequences[static_cast<size_t>(place.sequence)];
  const int64_t depth = block_depth(job), width = row_width(job);
  const bool has_kept = !job.kept.empty();
  for (int64_t m = 0; m < place.blocks; ++m) {
    float* to = rows + m * depth;
    const int64_t first = m * job.block, count = std::min(job.block, sequence.k_length - first);
    if (!has_kept) {
      summarise_block({head_rows(job.k, place.key_head, job.dtype),
                       {sequence.k_begin + first, 1, nullptr},
                       count,
                       job.head_dim,
                       job.score,
                       width},
                      to);
    } else if (count == job.block) {
      const float* from = job.kept[static_cast<size_t>(place.sequence)][static_cast<size_t>(m)] +
                          (job.kept_head + place.key_head) * summary_floats(job.head_dim, job.score);
      const int64_t half = summary_floats(job.head_dim, BlockScore::kMean);
      for (int64_t i = 0; i < depth; i += width)
        std::memcpy(to + i, from + i / width * half, static_cast<size_t>(width) * sizeof(float));
    } else {  // nobody chooses it
      for (int64_t i = 0; i < depth; ++i) to[i] = 0;
    }
  }
  pack_panels({rows, depth, Lane::kFloat}, {}, place.blocks, depth, panels);
}

template <Isa kIsa>
void BlockSearch<kIsa>::score(const BlockTopk& job, const BlockPiece& piece, const BlockPlace& place,
                              const float* panels, float* room) {
  const Sequence& sequence = job.sequences[static_cast<size_t>(place.sequence)];
  const int64_t depth = block_depth(job), row = score_row(place.blocks);
  const int64_t scored = reach_of(job, place, piece.first + piece.count - 1).end;
  float *least = room + piece.count * row, *queries = least + kMostQueries;
  if (scored > 0) pack_queries(job, piece, sequence, queries);
  static constexpr float kOne = 1;
  for (int64_t block = 0; block < scored; block += kPanel) {
    Product product{.a = queries, .a_row = depth, .b = panels + block * depth, .b_step = kPanel};
    product.c = room + block, product.c_row = row, product.depth = depth, product.factor = &kOne;
    multiply(product, piece.count, (std::min<int64_t>(kPanel, scored - block) + kLanes - 1) / kLanes);
  }
  for (int64_t n = 0; n < piece.count; ++n)
    least[n] = least_chosen(job, reach_of(job, place, piece.first + n), room + n * row);
}

template struct BlockSearch<kThisIsa>;

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
