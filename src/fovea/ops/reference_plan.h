#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "fovea/kernels/attention/attention.h"

namespace fovea::ops {

// The tokens of a group's queries or keys: token tokens[i] of the call lies at slot slots[i] of [G * length].
struct ReferenceSide {
  int64_t length = 0;        // the greatest: N_q or N_k
  at::Tensor tokens, slots;  // int64; undefined when the call's first G * length tokens are the slots
};

// Sequences of similar lengths, padded to one batch for dense products: G sequences, none empty.
struct ReferenceGroup {
  int64_t count() const { return static_cast<int64_t>(members.size()); }  // G
  std::vector<kernels::Sequence> members;
  ReferenceSide q, k;
  at::Tensor outside;  // bool [G or 1, H or 1, N_q, N_k], true: not a candidate; undefined: all are candidates
  at::Tensor keep;     // bool, as above, true: stays on top of the k best; undefined without keep=
};

struct ReferencePlan {
  std::vector<ReferenceGroup> groups;
};

// Built once per (pairs, kind, sequences, device, and streams where a pattern draws), then taken from a cache.
std::shared_ptr<const ReferencePlan> reference_plan(const kernels::AttentionProblem& problem,
                                                    const kernels::RandomStream& random, at::Device device);

}  // namespace fovea::ops
