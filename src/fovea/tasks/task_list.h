#pragma once
#include <span>

#include "fovea/tasks/setup.h"

namespace fovea::tasks {

// Tells the layers below what one task does for another: taggers find the clauses of translation models. Once, before
// any model is loaded.
void connect_tasks();

// The one list of tasks. The first is the default of `fovea train`.
std::span<const TaskEntry> task_list();

}  // namespace fovea::tasks
