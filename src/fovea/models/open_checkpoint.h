#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/nn/checkpoint.h"

namespace fovea::models {

// The model of a run's or checkpoint's folder. Throws an Error that names both tasks if the model is of none of
// `tasks`. `option` is the flag that named the folder.
nn::Checkpoint open_checkpoint(const std::filesystem::path& model, const std::vector<std::string>& tasks,
                               std::string_view option = "--model");

// Throws the Error of open_checkpoint() if `task` is not among `wanted`.
void require_task(const std::filesystem::path& model, const std::string& task, const std::vector<std::string>& wanted,
                  std::string_view option = "--model");

}  // namespace fovea::models
