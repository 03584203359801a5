#pragma once
#include "fovea/ops/reference_plan.h"

namespace fovea::ops {

struct BlockCall {
  const kernels::AttentionProblem& problem;
  const kernels::RandomStream& random;
  BlockBudget budget;
};

// Fills in the blocks of a group, whose other members are known: as many queries for each as the budget holds, but
// fewer if their patterns have few keys in common, so that a window costs what it
// sees. Its tensors are on the CPU.
void divide_into_blocks(const BlockCall& call, ReferenceGroup& group);

}  // namespace fovea::ops
