#include <string>
#include <vector>

#include "fovea/app/task_commands.h"
#include "fovea/app/torch.h"

namespace fovea::app {

int run_report(const std::vector<std::string>& arguments) {
  run_task_command(
      {.name = "report",
       .summary = "Writes one HTML file that shows the attention of every layer and head on sentences.",
       .usage = "--model DIR --input TEXT --output FILE.html [OPTIONS]",
       .epilogue = "  fovea report --model run --input test.en --reference test.de --output report.html\n"
                   "  fovea report --model run --source 'You can insert a row.' --output report.html\n"
                   "  fovea report --model run --input test.en --compare-attention 'topk(8)' --output report.html",
       .maker = &tasks::TaskEntry::report},
      task_list(), arguments);
  return 0;
}

}  // namespace fovea::app
