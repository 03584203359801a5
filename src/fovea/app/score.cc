#include <string>
#include <vector>

#include "fovea/app/task_commands.h"
#include "fovea/app/torch.h"

namespace fovea::app {

int run_score(const std::vector<std::string>& arguments) {
  run_task_command({.name = "score",
                    .summary = "How probable a text or an image is under a model.",
                    .usage = "--model DIR --train-sets A [B] [OPTIONS]",
                    .epilogue = "  fovea score --model run --train-sets test.en test.de --summary\n"
                                "  fovea score --model run --train-sets test.txt --context 256 --stride 256\n"
                                "  fovea score --model images --train-sets test_batch.bin",
                    .maker = &tasks::TaskEntry::score},
                   task_list(), arguments);
  return 0;
}

}  // namespace fovea::app
