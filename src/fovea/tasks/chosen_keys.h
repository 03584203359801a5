#pragma once
#include <cstdint>
#include <span>

#include "fovea/spec/attention_spec.h"

namespace fovea::tasks {

// Returns how many keys softmax's underflow left without weight: candidates that the selection chose, whose weight is
// 0. `weights` are those of the keys up to row.limit(). Other transforms' zeros are meant, and routed heads are not
// told apart: 0 for both. Keys that tie at a selection's threshold are counted as one each up to its k.
int64_t lost_keys(const Row& row, std::span<const float> weights, const AttentionSpec& spec);

}  // namespace fovea::tasks
