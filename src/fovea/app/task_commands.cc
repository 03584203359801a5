#include "fovea/app/task_commands.h"

#include <algorithm>
#include <optional>

#include "fovea/app/torch.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/model_task.h"
#include "fovea/nn/checkpoint_choice.h"

namespace fovea::app {
namespace {

// The entry of the task of --model; nothing if no model is named, or if options are only to be shown and the model
// cannot be read or has none. If there is one task to choose from, the command itself reports a model that cannot be
// read.
const tasks::TaskEntry* task_of_model(std::span<const tasks::TaskEntry> able,
                                      const std::vector<std::string>& arguments) {
  const std::optional<std::string> model = peek(arguments, "model", 'm');
  const bool asks_for_help = std::ranges::find_if(arguments, [](const std::string& argument) {
                               return argument == "--help" || argument == "-h" || argument == "--help-all";
                             }) != arguments.end();
  if (!model) return nullptr;
  std::string task;
  try {
    task = nn::task_of_checkpoint(*model);
  } catch (const Error&) {
    if (able.size() > 1 && !asks_for_help) throw;
    return nullptr;
  }
  const auto found = std::ranges::find_if(able, [&](const tasks::TaskEntry& entry) { return entry.name == task; });
  if (found != able.end()) return &*found;
  if (asks_for_help) return nullptr;
  std::vector<std::string> names;
  for (const tasks::TaskEntry& entry : able) names.emplace_back(entry.name);
  models::require_task(*model, task, names);
  return nullptr;
}

}  // namespace

void run_task_command(const TaskCommand& command, std::span<const tasks::TaskEntry> list,
                      const std::vector<std::string>& arguments) {
  std::vector<tasks::TaskEntry> able;
  std::vector<std::string> names;
  for (const tasks::TaskEntry& entry : list) {
    if (entry.*command.maker == nullptr) continue;
    able.push_back(entry);
    names.emplace_back(entry.name);
  }
  const tasks::TaskEntry* found = task_of_model(able, arguments);
  const tasks::TaskEntry& chosen = found == nullptr ? able.front() : *found;
  const tasks::CommandSetup setup = (chosen.*command.maker)();
  Options options(
      command.name,
      cat(command.summary, " For models of the task", able.size() == 1 ? " " : "s ", join(names, ", "), "."),
      command.usage);
  options.add(setup.fields, able.size() == 1 ? "Options" : cat("Options for models of the task ", chosen.name));
  std::vector<tasks::CommandSetup> others;
  for (const tasks::TaskEntry& entry : able) {
    if (entry.name == chosen.name) continue;
    others.push_back((entry.*command.maker)());
    options.add_other(cat("a model of the task ", entry.name), others.back().fields);
  }
  options.epilogue(command.epilogue);
  if (!options.parse(arguments)) return;
  require_torch();
  setup.run();
}

}  // namespace fovea::app
