#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "fovea/nn/checkpoint.h"

namespace fovea::decode {

// The model of a run's or checkpoint's folder. Throws an Error that names both tasks if the model is of none of
// `tasks`.
nn::Checkpoint open_checkpoint(const std::filesystem::path& model, const std::vector<std::string>& tasks);

// That check alone.
void require_task(const std::filesystem::path& model, const std::string& task, const std::vector<std::string>& wanted);

}  // namespace fovea::decode
