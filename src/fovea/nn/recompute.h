#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

// Gradient checkpointing (Chen et al. 2016).
namespace fovea::nn {

// Computes outputs from inputs, always the same ones from the same inputs and parameters. It must own what it reads,
// because backward calls it again.
using Recomputable = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

// compute(inputs), whose graph is not kept: backward computes it again, so the memory between the passes is that of
// the inputs. Gradients flow to `inputs` and to `parameters`, which are all that `compute` reads and learns; they have
// the bits that they would have without. Attention observers see the first computation alone. No second derivatives:
// backward with create_graph throws an Error.
std::vector<at::Tensor> recomputed(const Recomputable& compute, const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& parameters);

}  // namespace fovea::nn
