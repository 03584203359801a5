#include "fovea/ops/reference_budget.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <variant>

#include "fovea/base/error.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"

namespace fovea::ops {
namespace {

constexpr double kMib = 1 << 20;
constexpr double kUsualMib = 256, kMostMib = 1 << 30;

double budget_mib() {
  const char* text = std::getenv("FOVEA_REFERENCE_MIB");
  if (text == nullptr || *text == '\0') return kUsualMib;
  const std::optional<double> given = number_in<double>(text);
  if (!given || !(*given > 0) || *given > kMostMib)
    throw Error(cat("FOVEA_REFERENCE_MIB: got '", text,
                    "'; expected the MiB of a block of scores, above 0; leave it out for ", kUsualMib));
  return *given;
}

// The greatest number of bytes that forward or backward holds at once for a pair, as measured, rounded up, and as much
// again: allocators keep freed memory of blocks of other sizes.
int64_t pair_bytes(const kernels::AttentionProblem& problem) {
  const int64_t number = problem.dtype == kernels::DType::kFloat64 ? 8 : 4;
  int64_t bytes = 8 * number + 2;
  // Selection compares scores in double, with a bound of their rounding.
  if (problem.spec.select) bytes = std::max<int64_t>(bytes, 48);
  // Any alpha is computed in double, and exact thresholds need a sorted copy and the places of its numbers.
  if (std::holds_alternative<Entmax>(problem.spec.transform)) bytes = std::max<int64_t>(bytes, 72);
  if (std::holds_alternative<Sparsemax>(problem.spec.transform)) bytes = std::max<int64_t>(bytes, 5 * number + 24);
  if (problem.offsets.any()) bytes += 8 + 4 * number;
  if (problem.dropout > 0) bytes += 24 + number;  // the hash is computed in 64 bits
  return 2 * bytes;
}

}  // namespace

BlockBudget block_budget(const kernels::AttentionProblem& problem) {
  const int64_t number = problem.dtype == kernels::DType::kFloat64 ? 8 : 4;
  const kernels::OffsetRanges& has = problem.offsets;
  const int64_t offsets = has.by_head.count + has.by_query.count + has.product.count + has.sums.count;
  return {static_cast<int64_t>(budget_mib() * kMib), pair_bytes(problem),
          number * (6 * problem.head_dim + 3 * offsets)};
}

void refuse_row(const BlockBudget& budget, int64_t keys) {
  const auto mib = [](int64_t bytes) { return static_cast<double>(bytes) / kMib; };
  const double needed = mib(budget.of(1, 1, keys));
  throw Error(cat("attention: one query with ", keys, " keys takes ", fixed(needed, 2),
                  " MiB in the reference; FOVEA_REFERENCE_MIB allows ", fixed(mib(budget.bytes), 2),
                  "; set it to at least ", shortest(std::ceil(needed))));
}

}  // namespace fovea::ops
