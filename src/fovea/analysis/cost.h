#pragma once
#include <cstdint>

#include "fovea/spec/attention_spec.h"

// The cost of a mechanism, computed from its pairs.
namespace fovea::analysis {

// One attention of one sequence.
struct CostProblem {
  AttentionKind kind = AttentionKind::kSelf;
  int64_t queries = 0, keys = 0;  // tokens
  int64_t head_dim = 64;
  int64_t bytes_per_number = 4;
  int64_t index_width = 0;  // of all heads of an indexer together; read by dsa(k)
  int64_t key_heads = 0;    // heads of keys and values, which several heads of queries share; 0: as many as those
};

// Operations are additions, multiplications, comparisons and calls of exp alike; a multiplication with addition is two.
struct AttentionCost {
  double scored = 0;    // pairs whose score is computed, over all heads
  double weighted = 0;  // pairs that are left after patterns and selection, and so may have a weight
  double score_flops = 0, transform_flops = 0, value_flops = 0;  // of scores, of weights and norm, of sums of values
  double bytes = 0;  // q, k, v and the output, read or written once, and lists of selected pairs
  double flops() const { return score_flops + transform_flops + value_flops; }
  AttentionCost& operator+=(const AttentionCost& other);
};

// Returns the cost of all heads of a layer. Pairs are counted from the patterns, query by query, with random ones drawn
// for layer 0 and seed 1. Selections keep k keys (ties are not known), and causal clusters are taken to be of equal
// size. Zeros of ReLA, sparsemax and entmax depend on the data, so their pairs count as weighted. Transforms per pair
// and row as in table 4 of Zhang, Titov and Sennrich (2021): softmax 3 n - 1, ReLU n, the gated norm 10 per number and
// 1 per query; sparsemax and entmax 4 n and 6 n, without the search for the threshold.
AttentionCost cost_of(const LayerSpec& spec, const CostProblem& problem);

}  // namespace fovea::analysis
