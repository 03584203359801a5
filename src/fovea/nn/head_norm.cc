#include "fovea/nn/head_norm.h"

#include <cmath>

namespace fovea::nn {

HeadNorm::HeadNorm(const Norm& norm, const Width& width, const InitScope& scope) {
  const NormParts parts = parts_of(norm);
  const InitScope own = scope / "head_norm";
  const auto uniform = [&](int64_t inputs, const char* name) {
    return uniform_tensor({width.model}, std::sqrt(3.0 / static_cast<double>(inputs)), own / name);
  };
  if (parts.gain) {
    const int64_t inputs = parts.gain_start == GainStart::kByHead ? width.head : width.model;
    gain_ = register_parameter("gain", parts.gain_start == GainStart::kOne ? constant_tensor({width.model}, 1, scope)
                                                                           : uniform(inputs, "gain"));
  }
  if (parts.gate) gate_ = register_parameter("gate", uniform(width.model, "gate"));
  if (parts.bias) bias_ = register_parameter("bias", constant_tensor({width.model}, 0, scope));
}

void HeadNorm::fill(ops::AttentionOptions& options, const AttentionParameters& needs) const {
  if (needs.gain) options.gain = gain_;
  if (needs.gate) options.gate = gate_;
  if (needs.bias) options.bias = bias_;
}

std::string HeadNorm::missing(const HeadNorm* norm, const AttentionParameters& needs) {
  const auto lacks = [&](at::Tensor HeadNorm::*parameter) { return norm == nullptr || !(norm->*parameter).defined(); };
  if (needs.bias && lacks(&HeadNorm::bias_)) return "its norm's bias";
  if (needs.gate && lacks(&HeadNorm::gate_)) return "its norm's gate";
  if (needs.gain && lacks(&HeadNorm::gain_)) return "its norm's gain";
  return "";
}

}  // namespace fovea::nn
