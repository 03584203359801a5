#pragma once
#include <cstdint>

#include "fovea/ops/token_call.h"

// How much memory the reference may use for one block of scores.
namespace fovea::ops {

struct BlockBudget {
  int64_t bytes = 0;  // of a block
  // Bytes of a block for each pair of a query and a key of one head, and for each query of one head beside its pairs.
  int64_t pair_bytes = 0, row_bytes = 0;
  int64_t of(int64_t heads, int64_t queries, int64_t keys) const {
    return heads * queries * (keys * pair_bytes + row_bytes);
  }
  bool operator==(const BlockBudget&) const = default;
};

// The budget of FOVEA_REFERENCE_MIB, 256 MiB without it. Throws an Error if the variable is not a number above zero.
BlockBudget block_budget(const kernels::AttentionProblem& problem);

// Throws the Error for `keys` keys of one query of one head that the budget does not hold.
[[noreturn]] void refuse_row(const BlockBudget& budget, int64_t keys);

}  // namespace fovea::ops
