#include "fovea/ops/reference_budget.h"

#include <algorithm>
#include <variant>

#include "fovea/kernels/call/checks.h"

namespace fovea::ops {
namespace {

constexpr double kMib = 1 << 20;

// The greatest number of bytes that forward or backward holds at once for a pair, as measured, rounded up, and as much
// again: allocators keep freed memory of blocks of other sizes.
int64_t pair_bytes(const kernels::AttentionProblem& problem) {
  const int64_t number = problem.dtype == kernels::DType::kFloat64 ? 8 : 4;
  int64_t bytes = 8 * number + 2;
  // Selection compares scores in double, with a bound of their rounding.
  if (problem.spec.selects()) bytes = std::max<int64_t>(bytes, 48);
  // Any alpha is computed in double, and exact thresholds need a sorted copy and the places of its numbers.
  if (std::holds_alternative<Entmax>(problem.spec.transform)) bytes = std::max<int64_t>(bytes, 72);
  if (std::holds_alternative<Sparsemax>(problem.spec.transform)) bytes = std::max<int64_t>(bytes, 5 * number + 24);
  if (problem.spec.cap) bytes += 4 * number;  // the capped scores, their slopes, and gradients before and behind them
  if (problem.offsets.any()) bytes += 8 + 4 * number;
  if (problem.dropout > 0) bytes += 24 + number;  // the hash is computed in 64 bits
  return 2 * bytes;
}

}  // namespace

BlockBudget block_budget(const kernels::AttentionProblem& problem) {
  const int64_t number = problem.dtype == kernels::DType::kFloat64 ? 8 : 4;
  const kernels::OffsetRanges& has = problem.offsets;
  const int64_t offsets = has.by_head.count + has.by_query.count + has.product.count + has.sums.count;
  return {static_cast<int64_t>(kernels::reference_mib() * kMib), pair_bytes(problem),
          number * (6 * problem.head_dim + 3 * offsets)};
}

void refuse_row(const BlockBudget& budget, int64_t keys) {
  kernels::refuse_row({.keys = keys, .needed = static_cast<double>(budget.of(1, 1, keys)) / kMib},
                      static_cast<double>(budget.bytes) / kMib);
}

}  // namespace fovea::ops
