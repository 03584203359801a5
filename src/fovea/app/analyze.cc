#include <string>
#include <vector>

#include "fovea/app/task_commands.h"
#include "fovea/tasks/task_list.h"

namespace fovea::app {

int run_analyze(const std::vector<std::string>& arguments) {
  run_task_command(
      {.name = "analyze",
       .summary = "Shows what a model's attention does: a picture of a sentence, figures of a text by layer and head, "
                  "other mechanisms without training, or what they cost.",
       .usage = "--model DIR (--source TEXT [--target TEXT] | --train-sets A [B]) [OPTIONS]",
       .epilogue = "  fovea analyze --model run --source 'The file cannot be opened.'\n"
                   "  fovea analyze --model run --train-sets test.en test.de\n"
                   "  fovea analyze --model run --train-sets test.en test.de --sweep full 'topk(8)' 'topk(4)' "
                   "'cross=topk(4)' --output curve.svg\n"
                   "  fovea analyze --model run --cost --sweep full 'topk(8)' --lengths 100 1000",
       .maker = &tasks::TaskEntry::analyze},
      tasks::task_list(), arguments);
  return 0;
}

}  // namespace fovea::app
