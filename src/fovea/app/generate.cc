#include <string>
#include <vector>

#include "fovea/app/task_commands.h"
#include "fovea/app/torch.h"

namespace fovea::app {

int run_generate(const std::vector<std::string>& arguments) {
  run_task_command(
      {.name = "generate",
       .summary = "Makes text or images with a model: continues what is given, or begins a text or an image.",
       .usage = "--model DIR [--prompt TEXT | < prompts] [--output FILE] [OPTIONS]",
       .epilogue = "  fovea generate --model run --prompt 'Once upon a time' --max-length 500 "
                   "--temperature 0.8\n"
                   "  fovea generate --model run --count 3 --top-k 40 --seed 7\n"
                   "  fovea generate --model images --count 16 --output samples.png\n"
                   "  fovea generate --model images --complete photo.png --rows 16 --output completed.png",
       .maker = &tasks::TaskEntry::generate},
      task_list(), arguments);
  return 0;
}

}  // namespace fovea::app
