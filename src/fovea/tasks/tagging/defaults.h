#pragma once
#include "fovea/models/tagging/config.h"
#include "fovea/tasks/newest_defaults.h"
#include "fovea/tasks/tagging/options.h"

namespace fovea::tagging {

// Sets the newest defaults (spec/defaults.h).
inline void use_defaults(TrainConfig& train, Options& /*options*/, TaggingConfig& model) {
  tasks::use_newest_schedule(train);
  tasks::use_newest_layers(model);
}

}  // namespace fovea::tagging
