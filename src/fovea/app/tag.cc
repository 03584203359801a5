#include <string>
#include <vector>

#include "fovea/app/task_commands.h"
#include "fovea/app/torch.h"

namespace fovea::app {

int run_tag(const std::vector<std::string>& arguments) {
  run_task_command({.name = "tag",
                    .summary = "Labels the words of sentences: columns come back with one more.",
                    .usage = "--model DIR [OPTIONS] < columns",
                    .epilogue = "  fovea tag --model ner < eng.testa > eng.testa.tagged\n"
                                "  echo 'Anna lives in Paris.' | fovea tag --model ner --input-format text",
                    .maker = &tasks::TaskEntry::tag},
                   task_list(), arguments);
  return 0;
}

}  // namespace fovea::app
