#pragma once
#include <span>
#include <string>
#include <vector>

#include "fovea/tasks/setup.h"

namespace fovea::app {

// `fovea train` with these tasks; without --task it takes the first. Throws what training throws.
void train_one_of(std::span<const tasks::TaskEntry> list, const std::vector<std::string>& arguments);

}  // namespace fovea::app
