#pragma once
#include <functional>
#include <string>
#include <vector>

// Shared by the executable and the library: running a command and turning its exceptions into exit codes.
namespace fovea::app {

// Runs the command that the arguments name, or prints help. `before` is called before a command. Returns the exit code;
// throws what the command throws.
int run(const std::vector<std::string>& arguments, const std::function<void()>& before);

// Calls `program`, logs what it throws as one line, and makes sure that standard output was written. Returns the exit
// code. NeedsTorch (torch.h) passes through.
int guarded(const std::function<int()>& program);

}  // namespace fovea::app
