#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::app {

// A subcommand: run(arguments after its name) returns the exit code; user errors are thrown.
struct Command {
  std::string_view name, summary;
  int (*run)(const std::vector<std::string>& arguments);
};

// The one list, in the order of the help text. Commands whose options depend on the model's task are in
// task_commands.cc; each of the others is in a file of its own, <name>.cc.
std::span<const Command> commands();

}  // namespace fovea::app
