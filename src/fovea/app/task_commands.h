#pragma once
#include <span>
#include <string>
#include <vector>

#include "fovea/app/options.h"
#include "fovea/tasks/setup.h"

namespace fovea::app {

using CommandMaker = tasks::CommandSetup (*tasks::TaskEntry::*)();

// A command on a trained model whose options depend on the model's task.
struct TaskCommand {
  std::string name, summary, usage, epilogue;
  CommandMaker maker;  // which command of a task it is
};

// Parses the options of the model's task and runs the command. Throws an Error that names both tasks if the model's
// task has no such command.
void run_task_command(const TaskCommand& command, std::span<const tasks::TaskEntry> list,
                      const std::vector<std::string>& arguments);

}  // namespace fovea::app
