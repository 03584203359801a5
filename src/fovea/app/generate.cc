#include <string>
#include <vector>

#include "fovea/app/task_commands.h"
#include "fovea/tasks/task_list.h"

namespace fovea::app {

int run_generate(const std::vector<std::string>& arguments) {
  run_task_command({.name = "generate",
                    .summary = "Makes text with a model: continues prompts, or begins a text.",
                    .usage = "--model DIR [--prompt TEXT | < prompts] [--max-length N] [OPTIONS]",
                    .epilogue = "  fovea generate --model run --prompt 'Once upon a time' --max-length 500 "
                                "--temperature 0.8\n"
                                "  fovea generate --model run --count 3 --top-k 40 --seed 7",
                    .maker = &tasks::TaskEntry::generate},
                   tasks::task_list(), arguments);
  return 0;
}

}  // namespace fovea::app
