#include "fovea/spec/train_config.h"

#include <limits>

#include "fovea/base/strings.h"
#include "fovea/spec/config_problems.h"

namespace fovea {
namespace {

void check_optimizer(const TrainConfig& config, Problems& problems) {
  const std::vector<double>& p = config.optimizer_params;
  // The update is computed in float32: a smaller eps would be 0 there, and a weight without a gradient 0 / 0.
  constexpr double kLeastEps = std::numeric_limits<float>::min(), kMostEps = std::numeric_limits<float>::max();
  const bool good =
      p.size() == 3 && p[0] >= 0 && p[0] < 1 && p[1] >= 0 && p[1] < 1 && p[2] >= kLeastEps && p[2] <= kMostEps;
  problems.add_if(!good,
                  "--optimizer-params: expected beta1 and beta2 in [0, 1) and eps above 0 in float32 (1.2e-38 to "
                  "3.4e38), e.g. 0.9 0.98 1e-9");
  problems.add_if(config.learn_rate == 0, "--learn-rate is 0; nothing would be learned");
  const bool needs_end = config.lr_decay == "cosine" || config.lr_decay == "linear";
  problems.add_if(needs_end && config.after_batches == 0 && config.after_epochs == 0 && config.stop_after_seconds == 0,
                  cat("--lr-decay ", config.lr_decay,
                      " needs to know when training ends; set --after-batches, --after-epochs or "
                      "--stop-after-seconds"));
}

}  // namespace

void add_problems(const TrainConfig& config, Problems& problems) {
  problems.add_ranges(config);
  problems.add_if(config.model.empty(), "--model is missing; expected the folder of the run");
  check_optimizer(config, problems);
  add_machine_problems(config, problems);
  problems.add_if(config.no_reload && config.overwrite,
                  "--no-reload keeps the files of an existing run and --overwrite deletes them; choose one");
}

void validate(const TrainConfig& config) {
  Problems problems;
  add_problems(config, problems);
  problems.throw_if_any();
}

}  // namespace fovea
