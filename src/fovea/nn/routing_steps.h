#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fovea/kernels/routing/members.h"
#include "fovea/nn/attention.h"

namespace fovea::nn {

// The routed heads of one attention, step by step: for each row, what its tokens so far say about the clusters.
//
// routed(c,w,causal) keeps the members of each cluster, and a step equals the full pass, over segments with memory too.
// The other two choose members among all tokens so far at each step, so a step equals the last token of a full pass
// over these tokens only if no earlier state depends on members: a model of one layer.
class RoutingSteps {
 public:
  // Self-attention of `rows` empty rows. Null if no head is routed.
  static std::shared_ptr<RoutingSteps> of_self(const Attention& attention, int64_t rows);
  // Cross-attention: row r reads the keys of sequence sentences[r], cut by offsets [B + 1]. Null if no head is routed.
  static std::shared_ptr<RoutingSteps> of_cross(const Attention& attention, const Projected& keys,
                                                const at::Tensor& offsets, std::span<const int64_t> sentences);

  // Replaces the routed heads' keys by routing vectors, of the queries or of the keys themselves, in place, for a
  // cache: stacked [T, 3 H, D], which the next mix() reads.
  void share_keys(const at::Tensor& stacked);

  // The keys and values of self-attention, [tokens, H, D] each, and where the keys of each row lie (StepCache::Keys).
  struct Cache {
    at::Tensor keys, values;
    at::Tensor begins, lengths;        // [R]; the lengths leave out tokens that memory has forgotten
    std::optional<at::Tensor> tokens;  // [N]
  };
  // The outputs of the routed groups for the next tokens of each row, [T, heads of the group, D] each:
  // RoutingInputs::outputs. q [T, H, D], offsets [R + 1]; null in cross-attention.
  std::vector<at::Tensor> mix(const at::Tensor& q, const at::Tensor& offsets, const Cache* cache);

  // Row r continues what was row parents[r].
  void inherit(std::span<const int64_t> parents);

 private:
  // The state of one head of one row.
  struct HeadState {
    std::vector<uint32_t> ranks;                // [tokens, clusters]: the greater, the nearer
    std::vector<std::vector<int32_t>> members;  // causal: positions in each cluster, ascending
  };
  struct Group {
    AttentionSpec spec;
    AttentionLayerPointer within;       // the mechanism within a cluster
    int64_t first_head = 0, heads = 0;  // in the layer
    bool limits_own_keys = false;       // spec/routed.h
    at::Tensor centroids;               // [heads, c, D], or undefined
    std::vector<HeadState> states;      // [R, heads]: of the queries, and of keys that are the queries
    std::vector<HeadState> key_states;  // [R, heads]: of keys of their own in self-attention; else empty
    at::Tensor added_keys;              // their routing vectors of the next tokens, [T, heads, D]
    // Cross-attention: normalised keys and values [T_k * heads, 1, D], and their members by (head, sequence, cluster).
    at::Tensor keys, values;
    kernels::MemberLists key_members;

    const Routed& route() const { return *spec.route(); }
  };
  // `queries` neighbours in a list that see the same `length` keys of it, from `begin` on.
  struct Run {
    int64_t queries = 0, begin = 0, length = 0;
  };
  // The members of one cluster that take part in a step: new tokens as queries, by their rows of q, and keys.
  struct List {
    std::vector<int32_t> queries;
    std::vector<int64_t> keys;
    std::vector<Run> runs;  // all queries; one run, unless each query has a limit of its own
  };
  // All runs of a group's lists, one after the other, those of a head together.
  struct Lists {
    kernels::MemberLists queries;
    std::vector<int64_t> key_begins, key_lengths, keys;
    std::vector<size_t> head_starts;  // [heads + 1]
  };

  RoutingSteps(const Attention& attention, int64_t rows);
  std::vector<uint64_t> streams_of(const Group& group, bool own_keys) const;
  void take_keys(const Projected& keys, const at::Tensor& offsets);
  at::Tensor mix_group(Group& group, const at::Tensor& q, const at::Tensor& offsets, const Cache* cache);
  at::Tensor attend(const Group& group, const at::Tensor& queries, const Lists& lists, const Cache* cache) const;
  void append(const Group& group, std::vector<HeadState>& states, const at::Tensor& vectors,
              const at::Tensor& offsets) const;
  // The new tokens of a row: they begin at position `first` of the row, and at token `token` of q. They see no position
  // before `seen`.
  struct NewTokens {
    int64_t row, first, token, seen;
  };
  // The positions in the row of a cluster's members that take part, ascending.
  std::vector<int32_t> members(const Routed& route, const HeadState& state, int64_t cluster,
                               const NewTokens& tokens) const;
  // Positions of a cluster's keys of their own, ascending, of which each new query sees some up to itself.
  std::vector<int32_t> own_keys(const Routed& route, const HeadState& state, int64_t cluster,
                                const NewTokens& tokens) const;
  List list_of(const Group& group, int64_t head, int64_t cluster, const NewTokens& tokens, const Cache* cache) const;
  Lists lists_of(const Group& group, const at::Tensor& offsets, const Cache* cache) const;

  ops::RoutingInputs inputs_;
  ops::AttentionOptions options_;
  std::vector<Group> groups_;
  std::vector<int64_t> lengths_;    // tokens of each row so far
  std::vector<int64_t> sentences_;  // of each row; cross-attention alone
  int64_t sequences_ = 0;           // of the keys of cross-attention
};

}  // namespace fovea::nn
