#pragma once
#include <filesystem>

#include "fovea/nn/safetensors.h"

// The weights of a folder of Hugging Face's.
namespace fovea::models {

// The file of the weights, or that of the index of several: model.safetensors, or pytorch_model.bin (torch_file.h).
// Empty if the folder has none.
std::filesystem::path weights_file(const std::filesystem::path& folder);

// All tensors of the folder: of that file, or of the files that the index names. Throws an Error that names the file
// that is missing or damaged, or the tensor that is not where the index says.
nn::NamedTensors read_tensor_folder(const std::filesystem::path& folder);

}  // namespace fovea::models
