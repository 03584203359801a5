#include <string>
#include <vector>

#include "fovea/app/task_commands.h"
#include "fovea/app/torch.h"

namespace fovea::app {

int run_filter(const std::vector<std::string>& arguments) {
  run_task_command(
      {.name = "filter",
       .summary = "Scores how well the sides of sentence pairs match, one line per pair, and keeps the best pairs.",
       .usage = "--model DIR --train-sets A B [OPTIONS]",
       .epilogue =
           "  fovea filter --model run --train-sets big.en big.de > big.scores\n"
           "  fovea filter --model run --train-sets big.en big.de --keep 0.9 --output kept.en kept.de > big.scores\n"
           "  fovea filter --model run --train-sets test.en test.de --test shuffled",
       .maker = &tasks::TaskEntry::filter},
      task_list(), arguments);
  return 0;
}

}  // namespace fovea::app
