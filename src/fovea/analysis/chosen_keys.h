#pragma once
#include <cstdint>
#include <span>

#include "fovea/spec/attention_spec.h"

// The number of keys that a mechanism leaves a query, whatever the scores are.
namespace fovea::analysis {

// Returns the number of a query's candidates. With blocktopk, it is that of the blocks that are seen if none tie and
// the last block, which may be shorter, is among the others only if all are.
int64_t candidates_of(const AttentionSpec& spec, const Row& row);

// The keys that are left after the selection of `spec`, if none ties with its k-th best.
int64_t chosen_count(const AttentionSpec& spec, const Row& row);

// Returns how many keys softmax's underflow left without weight: chosen ones whose weight is 0. `weights` are those of
// the keys up to row.limit(). Other transforms' zeros are meant: 0. So it is for routed heads, chosen blocks, clauses
// and adaptive spans, whose keys depend on more than the spec.
int64_t lost_keys(const Row& row, std::span<const float> weights, const AttentionSpec& spec);

}  // namespace fovea::analysis
