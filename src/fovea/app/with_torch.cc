#include <ATen/Context.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include "fovea/app/torch.h"
#include "fovea/base/strings.h"
#include "fovea/tasks/captions/task.h"
#include "fovea/tasks/image/task.h"
#include "fovea/tasks/language/task.h"
#include "fovea/tasks/tagging/task.h"
#include "fovea/tasks/task_list.h"
#include "fovea/tasks/train_setup.h"
#include "fovea/tasks/translation/task.h"

namespace fovea::app {

void require_torch() {}

std::span<const tasks::TaskEntry> task_list() { return tasks::kTaskList<tasks::WithWork>; }

std::string build_info() {
  return cat("(libtorch ", TORCH_VERSION, ", ", at::get_cpu_capability(), ", ",
             at::hasCUDA() ? "CUDA" : "no CUDA device", ")");
}

}  // namespace fovea::app
