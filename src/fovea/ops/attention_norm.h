#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "fovea/spec/attention_spec.h"

namespace fovea::ops {

// The parameters that the norm's NormParts name, [H * D] each; a missing gain is 1, a missing bias 0.
struct NormParameters {
  const std::optional<at::Tensor>& gain;
  const std::optional<at::Tensor>& gate;
  const std::optional<at::Tensor>& bias;
};

// The norm over the H * D values of every query token, heads concatenated (Zhang, Titov, Sennrich 2021, equation 5).
// z [T, H, D] or [B, H, N, D]; the same layout comes back. Statistics in float, in double for double.
at::Tensor norm_over_heads(const Norm& norm, const at::Tensor& z, const NormParameters& parameters);

}  // namespace fovea::ops
