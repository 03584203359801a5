#pragma once
#include <span>

#include "fovea/tasks/setup.h"

namespace fovea::tasks {

// The one list of tasks. The first is the default of `fovea train`.
std::span<const TaskEntry> task_list();

}  // namespace fovea::tasks
