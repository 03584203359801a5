#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "fovea/kernels/attention/attention.h"

// One mechanism on some heads, as the operators fovea::attention_forward and fovea::attention_backward compute it: by a
// fast kernel if one accepts the problem, otherwise by the reference.
namespace fovea::ops {

// Texts of specs that are kept parsed: a service may be sent any.
inline constexpr size_t kMostSpecs = 1024;

// kernels::OffsetRanges as tensors: by_head and by_query are float32 (float64 if q is), queries and rows of q's type.
// Tensors of terms that a call does not have are undefined.
struct TermTensors {
  at::Tensor by_head;        // [H, count]
  at::Tensor by_query;       // q's shape with count in place of D
  at::Tensor queries, rows;  // q's shape; [count, H or 1, D]
};
inline constexpr std::array kTermTensors{&TermTensors::by_head, &TermTensors::by_query, &TermTensors::queries,
                                         &TermTensors::rows};
using WantedTerms = std::array<bool, kTermTensors.size()>;  // of their gradients

// The first offsets of the terms, and the offsets for which sums of weights are asked.
struct TermOffsets {
  int64_t by_head = 0, by_query = 0, rows = 0, sums = 0, sum_count = 0;
};

// Everything beside q, k and v; k and v have the heads that those of q read. As AttentionOptions, with the spec of one
// head group, norm left out.
struct CoreArguments {
  std::optional<at::Tensor> q_offsets, k_offsets, k_begins, k_tokens, q_lengths, k_lengths, alpha;
  std::string_view spec, kind;
  double scale = 1, dropout = 0;
  int64_t seed = 0, layer = 0, first_head = 0;  // of the heads of a layer, which q has from first_head on
  int64_t heads_per_key = 1;                    // so many heads of the layer share one of k and v
  c10::SymInt dropout_seed = 0;
  std::optional<at::Tensor> drawn_seed;
  TermTensors terms;
  TermOffsets offsets;
  std::optional<at::Tensor> given = {};  // lists of pairs, given_pairs.h
  int64_t given_block = 0;
};

struct CoreOutput {
  at::Tensor out;    // as q; dense: a [B, N_q, H, D] buffer seen as [B, H, N_q, D], so that heads concatenate for free
  at::Tensor stats;  // [T_q, H, floats per row] float, saved by kernels for backward; empty without it
  at::Tensor kept;   // [T_q, H, ints per row] int32
  at::Tensor sums;  // weights by offset: the layout of q, sum_count wide, of by_query's type; [0] if none are asked for
};

struct CoreGradients {
  at::Tensor q, k, v, alpha;  // as the inputs; alpha [0] when there is none
  TermTensors terms;          // [0] where there is none or it is not wanted
};

struct CoreTensors {
  at::Tensor q, k, v;
};

// The inputs of backward: gradients of out and sums; the gradients of sums may be undefined.
struct CoreCotangents {
  at::Tensor out, sums;
};

enum class Phase : uint8_t { kInference, kTraining };

CoreOutput core_forward(const CoreTensors& x, const CoreArguments& arguments, Phase phase);
CoreGradients core_backward(const CoreCotangents& given, const CoreTensors& x, const CoreOutput& saved,
                            const CoreArguments& arguments, const WantedTerms& wanted);
// core_forward's output by operators that autograd can follow, dense: for derivatives of the second order.
at::Tensor core_composed(const CoreTensors& x, const CoreArguments& arguments);
at::Tensor core_weights(const CoreTensors& x, const CoreArguments& arguments);

// core_forward's out and sums through the dispatcher, so with Autograd: differentiable in q, k, v, alpha and the terms.
struct CalledOutput {
  at::Tensor out, sums;
};
CalledOutput call_forward(const CoreTensors& x, const CoreArguments& arguments);

// Sizes alone, for Meta and for torch.compile: no data is read.
CoreOutput meta_forward(const CoreTensors& x, const CoreArguments& arguments, Phase phase);
CoreGradients meta_backward(const CoreTensors& x, const CoreArguments& arguments, const WantedTerms& wanted);

}  // namespace fovea::ops
