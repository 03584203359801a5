#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/tasks/bert/text_encoder.h"

namespace fovea::bert {

// The number of layers to compute for an option's value: -1 stands for all. Throws an Error that names the option if
// the model has fewer.
int64_t layer_of(const TextEncoder& encoder, int64_t layer, const std::string& option);

// Shows each sequence's vectors after `layer` layers, [tokens, M] float32 on the CPU, in any order. Throws Interrupted
// when a signal comes.
void each_vector(const TextEncoder& encoder, const std::vector<std::vector<int64_t>>& sequences, int64_t layer,
                 const std::function<void(size_t sequence, const at::Tensor& vectors)>& see);

}  // namespace fovea::bert
