#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "fovea/kernels/attention/attention.h"
#include "fovea/ops/reference_budget.h"

// How the reference divides a call: into groups of sequences, and each group into blocks of queries.
namespace fovea::ops {

// The tokens of a group's queries or keys: token tokens[i] of the call lies at slot slots[i] of [G * length].
struct ReferenceSide {
  int64_t length = 0;        // the greatest: N_q or N_k
  int64_t first = 0;         // the first token
  at::Tensor tokens, slots;  // int64; undefined if the G * length tokens from the first on are the slots
};

// Heads [first, first + count) of the call. Each `share` of them read one head of k and v, the first of them first_key.
struct HeadRun {
  int64_t first = 0, count = 0, share = 1, first_key = 0;
  int64_t keys() const { return count / share; }
};

// Ranges of pairs by their ends: flat places in [members, heads, queries, keys + 1] of a block, int64, each once.
struct SpanEdges {
  at::Tensor begins, ends;
  int64_t members = 1, heads = 1;  // 1: alike for all
};

// Some heads and queries of a group, and the keys that these queries may see. Scores of a block exist one block at a
// time.
struct ReferenceBlock {
  HeadRun heads;
  int64_t first_query = 0, queries = 0;
  int64_t first_key = 0, keys = 0;      // the block's columns are keys from first_key on, unless:
  at::Tensor key_places;                // int64 [keys], ascending: the columns' keys
  std::optional<SpanEdges> candidates;  // nothing: all pairs
  std::optional<SpanEdges> keep;        // the pairs that stay on top of the k best; nothing without keep=
};

// Sequences of similar lengths, padded to one batch: G sequences, none empty.
struct ReferenceGroup {
  int64_t count() const { return static_cast<int64_t>(members.size()); }  // G
  std::vector<kernels::Sequence> members;
  ReferenceSide q, k;
  at::Tensor starts;    // int64 [G or 1, 1, 1, 1]: the key position of query 0
  at::Tensor q_begins;  // int64 [G, 1, 1, 1]: the token of query 0
  std::vector<ReferenceBlock> blocks;
};

struct ReferencePlan {
  std::vector<ReferenceGroup> groups;
};

// Built once per (pairs, kind, heads, sequences, device, budget, and streams where a pattern draws), then taken from a
// cache: calls of the same batch copy nothing to the device. Throws an Error if the budget does not hold one row.
std::shared_ptr<const ReferencePlan> reference_plan(const kernels::AttentionProblem& problem,
                                                    const kernels::RandomStream& random, at::Device device);

}  // namespace fovea::ops
