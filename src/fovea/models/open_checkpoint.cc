#include "fovea/models/open_checkpoint.h"

#include <algorithm>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::models {

nn::Checkpoint open_checkpoint(const std::filesystem::path& model, const std::vector<std::string>& tasks,
                               std::string_view option) {
  nn::Checkpoint checkpoint = nn::load_checkpoint(model, nn::Load::kModel, option);
  require_task(model, checkpoint.identity.task, tasks, option);
  return checkpoint;
}

void require_task(const std::filesystem::path& model, const std::string& task, const std::vector<std::string>& wanted,
                  std::string_view option) {
  if (std::ranges::find(wanted, task) != wanted.end()) return;
  throw Error(cat(option, ": '", model.string(), "' is a model of the task ", task, "; expected one of the task",
                  wanted.size() == 1 ? " " : "s ", join(wanted, ", ")));
}

}  // namespace fovea::models
