#include <string>
#include <vector>

#include "fovea/app/task_commands.h"
#include "fovea/app/torch.h"

namespace fovea::app {

int run_align(const std::vector<std::string>& arguments) {
  run_task_command(
      {.name = "align",
       .summary = "Aligns the words of parallel text by a model's cross-attention: a line of links i-j per pair.",
       .usage = "--model DIR --train-sets A B [OPTIONS]",
       .epilogue = "  fovea align --model run --train-sets test.en test.de --layer 2 --shifted > test.align\n"
                   "  fovea align --model run --train-sets test.en test.de --gold test.gold --search\n"
                   "  fovea align --model run --reverse-model back --train-sets test.en test.de --gold test.gold",
       .maker = &tasks::TaskEntry::align},
      task_list(), arguments);
  return 0;
}

}  // namespace fovea::app
