#include "fovea/train/tensor_groups.h"

namespace fovea::train {

void insert_group(nn::NamedTensors& into, const std::string& prefix, const nn::NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) into[prefix + name] = tensor;
}

nn::NamedTensors extract_group(const nn::NamedTensors& from, const std::string& prefix) {
  nn::NamedTensors tensors;
  for (const auto& [name, tensor] : from) {
    if (name.starts_with(prefix)) tensors[name.substr(prefix.size())] = tensor;
  }
  return tensors;
}

}  // namespace fovea::train
