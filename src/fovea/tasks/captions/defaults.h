#pragma once
#include "fovea/tasks/captions/config.h"
#include "fovea/tasks/captions/options.h"
#include "fovea/tasks/newest_defaults.h"

namespace fovea::captions {

// Sets the newest defaults (spec/defaults.h).
inline void use_defaults(TrainConfig& train, Options& /*options*/, CaptionConfig& model) {
  tasks::use_newest_schedule(train);
  tasks::use_newest_layers(model);
}

}  // namespace fovea::captions
