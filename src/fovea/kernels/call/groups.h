#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "fovea/base/executor.h"
#include "fovea/kernels/attention/attention.h"
#include "fovea/spec/resolved_layer.h"

// A layer's call cut into its head groups. Arrays hold all heads of the call, and a group is a view of them: kernels
// read a group's heads and write its heads of the results where they lie, so nothing is split or concatenated.
namespace fovea::kernels {

// A head group's problem, and where its part of the call's arrays begins.
struct GroupProblem {
  AttentionProblem problem;  // the call's with the group's spec, heads and terms
  int64_t first_head = 0, first_key_head = 0;
  bool reads_alpha = false;         // the call has a learned alpha, and the group reads it
  bool shares_keys_before = false;  // its first head of k is the last one of the group before it too
  // The numbers that forward leaves for backward, and their place in the buffers of the call.
  SavedPerRow saved = {}, saved_begin = {};
  // The group reads the entries of its own range; the tables of the call may begin before it and hold more.
  int64_t by_head_begin = 0, rows_begin = 0;
};

struct GroupedCall {
  int64_t num_heads = 0;
  OffsetRanges offsets = {};  // the ranges that the call's tables have
  std::vector<GroupProblem> groups = {};
  SavedPerRow saved = {};  // numbers in the buffers of all groups
};

// Throws an Error if the spec does not fit the kind, or cross-attention has terms.
void check_group(const AttentionProblem& problem);

// `call` is the problem of all heads of the groups, of T_q = `tokens` rows of q with padding; its spec is not read. A
// group whose spec has an adaptive span of l keys reads the terms of the offsets -l ... -1 alone, so that a short span
// costs only what it sees. terms_for_spans: groups without one take no terms. Each group passes check_group().
GroupedCall grouped_call(std::span<const AttentionLayer::Group> groups, const AttentionProblem& call, int64_t tokens,
                         bool terms_for_spans);

// The kernels of all groups. Which problems kernels refuse depends on nothing that groups differ in but the spec, and
// the last kernel takes every spec; so either all groups have kernels, or the reference computes the call.
class GroupKernels {
 public:
  // Reads `call` as long as it lives.
  explicit GroupKernels(const GroupedCall& call);
  explicit GroupKernels(GroupedCall&&) = delete;
  bool take() const { return choices_.size() == call_.groups.size(); }
  // Both run if the kernels take the call. `stats` and `kept` are the buffers of all groups, of GroupedCall::saved
  // numbers.
  void forward(const AttentionForward& arrays, Executor& executor) const;
  // grad_terms.by_head and grad_terms.rows begin as zeros.
  void backward(const AttentionBackward& arrays, Executor& executor) const;

 private:
  const GroupedCall& call_;
  std::vector<KernelChoice> choices_;
};

}  // namespace fovea::kernels
