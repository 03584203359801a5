#pragma once
#include <cstdint>

#include "fovea/base/executor.h"
#include "fovea/kernels/call/layout.h"

// Lists of pairs that come with a call (GivenPairs), read without torch into the form that kernels take (GivenLists).
namespace fovea::kernels {

inline constexpr int64_t kReadBehindLists = 16;  // numbers that kernels may read behind the last list

// The name of such lists as callers give them.
const char* name_of_lists(bool by_head);

// Sorts the lists of the problem's queries into `out`, [T_q, list_heads(), count], and fills each up with -1; behind
// the last list, kReadBehindLists numbers become -1. `given` is on the CPU, [B, (heads,) N_q, count] or, packed, [T_q,
// (heads,) count], with its last dimension side by side. Throws an Error that names the entry which is none of its
// sequence's keys, lies behind its query under a causal limit, or comes twice.
void sort_lists(const TensorView& given, bool packed, const AttentionProblem& problem, int32_t* out,
                Executor& executor);

}  // namespace fovea::kernels
