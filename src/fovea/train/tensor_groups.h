#pragma once
#include <string>

#include "fovea/nn/safetensors.h"

namespace fovea::train {

// Groups of tensors in one map: the names of a group share a prefix.
void insert_group(nn::NamedTensors& into, const std::string& prefix, const nn::NamedTensors& tensors);
nn::NamedTensors extract_group(const nn::NamedTensors& from, const std::string& prefix);  // names without the prefix

}  // namespace fovea::train
