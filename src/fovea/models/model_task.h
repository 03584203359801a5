#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace fovea::models {

// Throws an Error that names both sides if `task`, that of the model in the folder `model`, is not one of `wanted`.
// `option` is the flag that named the folder.
void require_task(const std::string& model, const std::string& task, const std::vector<std::string>& wanted,
                  std::string_view option = "--model");

}  // namespace fovea::models
