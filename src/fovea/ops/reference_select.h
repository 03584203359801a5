#pragma once
#include "fovea/ops/reference_offsets.h"

// Scores of a block and the pairs that its rows select.
namespace fovea::ops {

// A group's queries, keys and values, padded: [G, H, N_q, D] and [G, H_kv, N_k, D].
struct GroupRows {
  at::Tensor q, k, v;
  GroupTerms terms;
  at::Tensor given;  // the call's lists of pairs on the device, or undefined
};

struct SelectedScores {
  at::Tensor scores;   // [G, heads, queries, keys], in the type of computation
  at::Tensor dropped;  // bool, broadcasts to the scores: not candidates, or not selected; undefined: all take part
};

// Each pair's score; on the CPU its selection compares scores in double, where those apart by no more than rounding are
// equal.
SelectedScores selected_scores(const BlockView& view, const GroupRows& rows);

}  // namespace fovea::ops
