#pragma once
#include <cstdint>
#include <span>

#include "fovea/analysis/report.h"

namespace fovea::analysis {

// A layer and one of its heads, both from 1.
struct HeadPlace {
  int64_t layer = 0, head = 0;
};

// Returns the head that tells keys apart best: the one with the greatest mutual information of queries and keys, the
// first of equal ones. A head whose rows all look at the same key is not sharp in this sense, although its entropy is
// 0. `layers` has at least one layer. A layer or a head of `asked` above 0 is the only one that is searched.
HeadPlace sharpest_head(std::span<const HeadWeights> layers, const HeadPlace& asked = {});

}  // namespace fovea::analysis
