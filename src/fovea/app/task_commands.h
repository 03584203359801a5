#pragma once
#include <string>
#include <vector>

#include "fovea/tasks/setup.h"

namespace fovea::app {

using CommandMaker = tasks::CommandSetup (*tasks::TaskEntry::*)();

// Runs a command on a trained model with the options of the model's task; `maker` says which command of a task it is.
// Returns the exit code. Throws an Error that names both tasks if the model's task has no such command.
int run_task_command(CommandMaker maker, const std::vector<std::string>& arguments);

}  // namespace fovea::app
