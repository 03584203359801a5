#include "fovea/tasks/task_list.h"

#include <array>

#include "fovea/tasks/translation/run.h"
#include "fovea/tasks/translation/task.h"

namespace fovea::tasks {

std::span<const TaskEntry> task_list() {
  static constexpr std::array kTasks = {
      TaskEntry{.name = translation::kTask,
                .summary = "one language to another, by an encoder-decoder",
                .train = train_setup<translation::TranslationTask>,
                .translate = [] { return command_setup(translation::run_translate); },
                .score = [] { return command_setup(translation::run_score); }},
  };
  return kTasks;
}

}  // namespace fovea::tasks
