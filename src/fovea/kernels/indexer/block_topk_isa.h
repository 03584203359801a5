#pragma once
#include <cstdint>

#include "fovea/kernels/indexer/block_topk.h"
#include "fovea/kernels/simd/isa.h"

namespace fovea::kernels {

// The summaries of the blocks of one sequence and key head.
struct BlockPlace {
  int64_t sequence = 0, key_head = 0;
  int64_t blocks = 0;  // of the sequence
  int64_t at = 0;      // its panels in the array of all, in floats
};

// `count` queries of a sequence under a head, from `first` on.
struct BlockPiece {
  int64_t place = 0;  // its BlockPlace
  int64_t head = 0, first = 0, count = 0;
};

// The block of a query itself, or -1 for a query before all keys; the blocks that it chooses from are those before
// `end` except its own.
struct BlockReach {
  int64_t own = -1, end = 0;
};
BlockReach reach_of(const BlockTopk& job, const BlockPlace& place, int64_t query);

// Room of a thread, in floats.
struct BlockRoom {
  int64_t queries = 0;  // of a piece, at most
  int64_t floats = 0;
};

// block_topk() at one level.
template <Isa kIsa>
struct BlockSearch {
  static int64_t panel_floats(const BlockTopk& job, int64_t blocks);
  static int64_t score_row(int64_t blocks);
  static BlockRoom room(const BlockTopk& job,
                        int64_t blocks);  // blocks: of the longest sequence
  // Writes the packed summaries of a sequence's blocks; `rows` has room for them, a row after the other.
  static void summarise_keys(const BlockKeys& keys, float* out);
  static void summarise(const BlockTopk& job, const BlockPlace& place, float* panels, float* rows);
  // Writes the scores of each query's blocks to rows of `room`, score_row(place.blocks) apart, and behind the last row,
  // for each query, the least score of a chosen block; -infinity if all are.
  static void score(const BlockTopk& job, const BlockPiece& piece, const BlockPlace& place, const float* panels,
                    float* room);
};

}  // namespace fovea::kernels
