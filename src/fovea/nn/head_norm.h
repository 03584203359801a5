#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <string>

#include "fovea/nn/init.h"
#include "fovea/ops/attention_call.h"
#include "fovea/spec/attention_parameters.h"

namespace fovea::nn {

// The parameters of the norm over an attention's concatenated heads: gain, gate and bias [M], as far as the
// mechanism's norm reads them.
class HeadNorm : public torch::nn::Module {
 public:
  struct Width {
    int64_t model = 0, head = 0;
  };
  // `scope` is that of the attention.
  HeadNorm(const Norm& norm, const Width& width, const InitScope& scope);
  void fill(ops::AttentionOptions& options, const AttentionParameters& needs) const;
  // The name of what a mechanism needs and the norm does not have; "" if nothing. A null norm has nothing.
  static std::string missing(const HeadNorm* norm, const AttentionParameters& needs);

 private:
  at::Tensor gain_, gate_, bias_;
};

}  // namespace fovea::nn
