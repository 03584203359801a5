#include <string>
#include <vector>

#include "fovea/app/task_commands.h"
#include "fovea/app/torch.h"

namespace fovea::app {

int run_caption(const std::vector<std::string>& arguments) {
  run_task_command({.name = "caption",
                    .summary = "Writes a caption for each image, by beam search.",
                    .usage = "--model DIR --features FILE... [--output FILE] [OPTIONS]",
                    .epilogue = "  fovea caption --model run --features test.npy > test.captions\n"
                                "  fovea caption --model run --features test.safetensors --image-ids test.ids "
                                "--length-penalty gnmt --normalize 0.6",
                    .maker = &tasks::TaskEntry::caption},
                   task_list(), arguments);
  return 0;
}

}  // namespace fovea::app
