#include "fovea/train/task.h"

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::train {

nn::NamedTensors Task::weights_of(const nn::Checkpoint& pretrained) const {
  const std::string folder = pretrained.folder.string();
  const auto difference = nn::first_difference(pretrained.identity, parts_.identity);
  using Kind = nn::IdentityDifference::Kind;
  if (difference && difference->kind == Kind::kTask)
    throw Error(cat("--pretrained-model: '", folder, "' is a model of the task ", difference->first,
                    "; expected one of ", difference->second));
  if (difference && difference->kind == Kind::kFile)
    throw Error(cat("--pretrained-model: '", folder, "' has another ", difference->name,
                    " than this run; give the files that it was trained with"));
  return pretrained.model;
}

bool Task::shares_validation() const { return false; }

void Task::after_update(bool /*made*/) {}

nn::NamedTensors Task::carried() const { return {}; }

void Task::restore(const nn::NamedTensors& carried, const std::string& origin) {
  if (!carried.empty())
    throw Error(cat(origin, ": tensor '", carried.begin()->first, "' is state that this task does not carry"));
}

}  // namespace fovea::train
