#include <string>
#include <vector>

#include "fovea/app/task_commands.h"
#include "fovea/app/torch.h"

namespace fovea::app {

int run_translate(const std::vector<std::string>& arguments) {
  run_task_command(
      {.name = "translate",
       .summary = "Translates lines of text: a line out for each line in, in order.",
       .usage = "--model DIR < text > translation",
       .epilogue =
           "  fovea translate --model run --beam-size 5 --normalize 1 < test.en > test.out\n"
           "  fovea translate --model run --attention 'topk(8)' --n-best --input test.en.gz --output test.nbest.gz",
       .maker = &tasks::TaskEntry::translate},
      task_list(), arguments);
  return 0;
}

}  // namespace fovea::app
