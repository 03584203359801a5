#pragma once
#include <filesystem>
#include <map>
#include <string>

namespace fovea::models {

// The file of each tensor, as a model.safetensors.index.json of Hugging Face's has them. Throws an Error that begins
// with `origin`, also for a file outside the folder.
std::map<std::string, std::string> parse_tensor_index(const std::string& json, const std::string& origin);

// Throws an Error if the folder is an adapter of PEFT's: changes of a model without the model.
void refuse_adapter(const std::filesystem::path& folder);

}  // namespace fovea::models
