#include "fovea/models/model_task.h"

#include <algorithm>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::models {

void require_task(const std::string& model, const std::string& task, const std::vector<std::string>& wanted,
                  std::string_view option) {
  if (std::ranges::find(wanted, task) != wanted.end()) return;
  throw Error(cat(option, ": '", model, "' is a model of the task ", task, "; expected one of the task",
                  wanted.size() == 1 ? " " : "s ", join(wanted, ", ")));
}

}  // namespace fovea::models
