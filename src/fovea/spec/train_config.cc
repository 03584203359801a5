#include "fovea/spec/train_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "fovea/base/strings.h"
#include "fovea/spec/config_problems.h"

namespace fovea {
namespace {

// Refuses options of other optimisers, unless they have their default values: a --config file may list every option.
void check_optimizer_options(const TrainConfig& config, Problems& problems) {
  for (const std::string_view name : changed_fields(config)) {
    const std::string_view users = optimizers_with(name);
    if (users.empty() || place_of_choice(users, config.optimizer)) continue;
    problems.add(cat("--", name, " is an option of --optimizer ", join(split(users, '|'), " and "),
                     ", but --optimizer is ", config.optimizer));
  }
}

void check_optimizer(const TrainConfig& config, Problems& problems) {
  const std::vector<double>& p = config.optimizer_params;
  // The update is computed in float32: a smaller eps would be 0 there, and a weight without a gradient 0 / 0.
  constexpr double kLeastEps = std::numeric_limits<float>::min(), kMostEps = std::numeric_limits<float>::max();
  const bool good =
      p.size() == 3 && p[0] >= 0 && p[0] < 1 && p[1] >= 0 && p[1] < 1 && p[2] >= kLeastEps && p[2] <= kMostEps;
  problems.add_if(!good,
                  "--optimizer-params: expected beta1 and beta2 in [0, 1) and eps above 0 in float32 (1.2e-38 to "
                  "3.4e38), e.g. 0.9 0.98 1e-9");
  check_optimizer_options(config, problems);
  problems.add_if(config.learn_rate == 0, "--learn-rate is 0; nothing would be learned");
  problems.add_if(config.learn_rate < 0, cat("--learn-rate: got '", shortest(config.learn_rate),
                                             "'; expected a rate above 0, or -1 for that of the model's width"));
  problems.add_if(config.learn_rate * config.weight_decay >= 1,
                  cat("--weight-decay ", shortest(config.weight_decay), " times --learn-rate ",
                      shortest(config.learn_rate), " is 1 or more; an update would erase the weights"));
  const bool needs_end = config.lr_decay == "cosine" || config.lr_decay == "linear";
  problems.add_if(needs_end && config.after_batches == 0 && config.after_epochs == 0 && config.stop_after_seconds == 0,
                  cat("--lr-decay ", config.lr_decay,
                      " needs to know when training ends; set --after-batches, --after-epochs or "
                      "--stop-after-seconds"));
}

}  // namespace

double usual_learn_rate(int64_t width) {
  return std::stod(fixed(0.045 / std::sqrt(static_cast<double>(std::max<int64_t>(width, 1))), 6));
}

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
