#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <optional>
#include <string>
#include <string_view>

#include "fovea/kernels/attention/attention.h"

// One mechanism on some heads: what the operators fovea::attention_forward and fovea::attention_backward compute,
// by a fast kernel where one accepts the problem and by the reference elsewhere.
namespace fovea::ops {

// Texts of specs that are kept parsed: a service may be sent any.
inline constexpr size_t kMostSpecs = 1024;

// Everything beside q, k and v; as AttentionOptions, with the spec of one head group, norm left out.
struct CoreArguments {
  std::optional<at::Tensor> q_offsets, k_offsets, k_begins, k_tokens, q_lengths, k_lengths, alpha;
  std::string_view spec, kind;
  double scale = 1, dropout = 0;
  int64_t seed = 0, layer = 0, first_head = 0;
  c10::SymInt dropout_seed = 0;
  std::optional<at::Tensor> drawn_seed;
};

struct CoreOutput {
  at::Tensor out;    // as q; dense: a [B, N_q, H, D] buffer seen as [B, H, N_q, D], so that heads concatenate for free
  at::Tensor stats;  // [T_q, H, floats a row] float, what the kernels left for backward; empty without it
  at::Tensor kept;   // [T_q, H, ints a row] int32
};

struct CoreGradients {
  at::Tensor q, k, v, alpha;  // as the inputs; alpha [0] when there is none
};

struct CoreTensors {
  at::Tensor q, k, v;
};

enum class Phase : uint8_t { kInference, kTraining };

CoreOutput core_forward(const CoreTensors& x, const CoreArguments& arguments, Phase phase);
CoreGradients core_backward(const at::Tensor& grad_out, const CoreTensors& x, const CoreOutput& saved,
                            const CoreArguments& arguments);
// core_forward's output by operators that autograd can follow, dense: for derivatives of the second order.
at::Tensor core_composed(const CoreTensors& x, const CoreArguments& arguments);
at::Tensor core_weights(const CoreTensors& x, const CoreArguments& arguments);

// core_forward's output through the dispatcher, so with Autograd: differentiable in q, k, v and alpha.
at::Tensor call_forward(const CoreTensors& x, const CoreArguments& arguments);

// Sizes alone, for Meta and for torch.compile: no data is read.
CoreOutput meta_forward(const CoreTensors& x, const CoreArguments& arguments, Phase phase);
CoreGradients meta_backward(const CoreTensors& x, const std::optional<at::Tensor>& alpha);

}  // namespace fovea::ops
