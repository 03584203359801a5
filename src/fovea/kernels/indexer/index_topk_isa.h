#pragma once
#include <cstdint>
#include <span>

#include "fovea/kernels/indexer/index_topk.h"
#include "fovea/kernels/simd/isa.h"

namespace fovea::kernels {

constexpr int64_t kIndexPackKeys = 1024;  // a piece of the keys to pack; a multiple of every level's panel

// `count` queries of a sequence from its `first` one on, or for packing, keys.
struct IndexPiece {
  int64_t sequence = 0, first = 0, count = 0;
};

// The layout of a block of queries in a thread's scratch space of floats and int32.
struct IndexScratch {
  int64_t queries = 0;   // of a block, at most
  int64_t width = 0;     // of a packed query
  int64_t capacity = 0;  // candidates that are kept of a query, at most
  int64_t floats = 0;    // of the whole space
};

// index_topk() at one level. `panels` hold the packed keys: those of sequence s begin at panels + begins[s].
template <Isa kIsa>
struct IndexSearch {
  static IndexScratch scratch(const IndexTopk& job);
  static void pack(const IndexTopk& job, const IndexPiece& keys, float* panels);
  static void select(const IndexTopk& job, const IndexPiece& queries, const float* panels, float* scratch);
};

}  // namespace fovea::kernels
