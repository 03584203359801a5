#include "fovea/decode/open_checkpoint.h"

#include <algorithm>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::decode {

nn::Checkpoint open_checkpoint(const std::filesystem::path& model, const std::vector<std::string>& tasks) {
  nn::Checkpoint checkpoint = nn::load_checkpoint(model, nn::Load::kModel);
  require_task(model, checkpoint.identity.task, tasks);
  return checkpoint;
}

void require_task(const std::filesystem::path& model, const std::string& task, const std::vector<std::string>& wanted) {
  if (std::ranges::find(wanted, task) != wanted.end()) return;
  throw Error(cat("--model: '", model.string(), "' is a model of the task ", task, "; expected one of the task",
                  wanted.size() == 1 ? " " : "s ", join(wanted, ", ")));
}

}  // namespace fovea::decode
