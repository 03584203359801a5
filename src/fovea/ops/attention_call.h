#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "fovea/spec/attention_kind.h"

// The inputs of an attention call besides q, k and v.
namespace fovea::ops {

struct RoutingInputs;  // routing.h

// Terms that are added to a score of self-attention by the offset o of its key from its query, key position less query
// position; or the gradients of these terms. A tensor is undefined if a call does not have the term.
struct TermTensors {
  at::Tensor by_head;        // [H, count]: adds by_head[h, o]
  at::Tensor by_query;       // q's shape with count in place of D: adds by_query[t, h, o]
  at::Tensor queries, rows;  // q's shape, [count, H or 1, D]: adds scale queries[t, h] . rows[o, h]
};
inline constexpr std::array kTermTensors{&TermTensors::by_head, &TermTensors::by_query, &TermTensors::queries,
                                         &TermTensors::rows};

// A term has the offsets first ... first + count - 1, and any other offset counts as the nearest of these.
struct OffsetTerms : TermTensors {
  int64_t by_head_first = 0, by_query_first = 0, rows_first = 0, values_first = 0;
  at::Tensor values = {};  // [count, H or 1, D_v]: a key's value is v + values[o, h]
  // If true, only heads whose spec has an adaptive span take the terms.
  bool for_spans = false;
  // The product of sums [T_q H, count] of weights and values [count, D], for packed tensors and values that the heads
  // share. Null: ATen's product, whose bits depend on the number of rows.
  at::Tensor (*product)(const at::Tensor& sums, const at::Tensor& values) = nullptr;
};

// Pairs that come with the call: each query attends to the keys of its sequence, or blocks of `block` keys, that its
// list names, and that the spec's own pattern has, if any. int32 or int64 on q's device; in any order, each once, -1 in
// places left over. An entry outside of the sequence, or behind its query under a causal limit, is an Error. No head
// may have routed(c,w) or blocktopk(b,k).
struct PairLists {
  at::Tensor lists = {};  // [B, N_q, k], packed [T_q, k]; undefined: no lists
  int64_t block = 0;      // 1: entries are keys; else blocks of so many keys
  bool by_head = false;  // each head of k or q has lists of its own, [B, H_kv or H, N_q, k], packed [T_q, H_kv or H, k]
};

// A copy of a cache's keys in 8 bits beside them, which pack_key_screen() (key_screen.h) writes. A step with topk(k)
// reads it to leave out keys that cannot be selected. It changes what is read and no bit of the output.
struct KeyScreen {
  at::Tensor rows = {};     // uint8 [T_k, H_kv, bytes of a row]; undefined: no copy
  at::Tensor steps = {};    // float32 [T_k, H_kv], a head's numbers side by side
  at::Tensor extents = {};  // float32 [H_kv, 3]
};

// Inputs beside q, k and v; v may be of another width than q and k, [.., D_v], and the output is then as wide as it.
// Layouts:
//   packed: q [T_q, H, D], k and v [T_k, H, D], with q_offsets, k_offsets [B + 1].
//           With k_begins and k_lengths [B] instead of k_offsets, sequence b has the keys [k_begins[b], k_begins[b] +
//           k_lengths[b]) of k, which may overlap and leave gaps: caches, and rows that share a memory; no gradients.
//           With k_tokens [N] too these are ranges of it, and key j of the sequence is row k_tokens[k_begins[b] + j] of
//           k and v: caches in pieces, beams that share what they have in common;
//   dense:  q [B, H, N_q, D], k and v [B, H, N_k, D], with optional q_lengths, k_lengths [B]. Where N_q = N_k and
//           positions are compared, causally or by a pattern, one of them stands for both.
// Offsets, begins, lengths and tokens are int64 on the CPU. Any strides. In self-attention query i stands at key
// position i + k_length - q_length.
struct AttentionOptions {
  AttentionKind kind = AttentionKind::kSelf;
  std::optional<at::Tensor> q_offsets, k_offsets;  // packed; k_offsets default to q_offsets
  std::optional<at::Tensor> k_begins;              // packed: with k_lengths, in place of k_offsets
  std::optional<at::Tensor> k_tokens;              // packed: with k_begins
  std::optional<at::Tensor> q_lengths, k_lengths;  // dense; default: all of N
  std::optional<at::Tensor> alpha;                 // [H], entmax(learned), in the range above
  std::optional<at::Tensor> sinks = {};            // [H], sink
  std::optional<at::Tensor> gain, gate, bias;      // [H * D_v], norms: gain all, gate gated-*, bias *layernorm
  std::optional<double> scale;                     // default 1 / sqrt(D)
  double dropout = 0;                              // on the weights; 0 in evaluation
  int64_t seed = 0;                                // of the run: random(k) draws from (seed, layer, head)
  int64_t layer = 0;
  int64_t dropout_seed = 0;                   // of this call
  std::optional<at::Tensor> drawn_seed = {};  // in its place: int64 of no dimension on the CPU, as a generator draws it
  OffsetTerms offsets = {};
  // If true, k and v may have H_kv heads, a divisor of q's H: head h of q reads their head h / (H / H_kv).
  bool enable_gqa = false;
  const RoutingInputs* routing = nullptr;  // what routed(c,w) reads; routed(c,w,random) does without
  PairLists pairs = {};
  // Null, or for each head group with blocktopk(b,k) the lists of chosen_blocks()
  // (block_choice.h), [T_q, heads of the group, count] int32. Read by packed calls.
  const std::vector<at::Tensor>* chosen_blocks = nullptr;
  KeyScreen screen = {};  // with k_begins
};

// The vectors that tell where sequences begin and end.
inline constexpr std::array kSequenceVectors{
    std::pair("q_offsets", &AttentionOptions::q_offsets), std::pair("k_offsets", &AttentionOptions::k_offsets),
    std::pair("k_begins", &AttentionOptions::k_begins),   std::pair("k_tokens", &AttentionOptions::k_tokens),
    std::pair("q_lengths", &AttentionOptions::q_lengths), std::pair("k_lengths", &AttentionOptions::k_lengths)};

}  // namespace fovea::ops
