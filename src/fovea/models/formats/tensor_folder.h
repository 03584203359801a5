#pragma once
#include <filesystem>

#include "fovea/nn/safetensors.h"

// The weights of a folder of Hugging Face's.
namespace fovea::models {

// All tensors of the folder: of model.safetensors, or of the files that model.safetensors.index.json names. Throws an
// Error that names the file that is missing or damaged, or the tensor that is not where the index says.
nn::NamedTensors read_tensor_folder(const std::filesystem::path& folder);

}  // namespace fovea::models
