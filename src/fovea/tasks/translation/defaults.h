#pragma once
#include "fovea/spec/model_config.h"
#include "fovea/tasks/newest_defaults.h"
#include "fovea/tasks/translation/options.h"

namespace fovea::translation {

// Sets the newest defaults (spec/defaults.h).
inline void use_defaults(TrainConfig& train, Options& /*options*/, EncoderDecoderConfig& model) {
  tasks::use_newest_schedule(train);
  tasks::use_newest_layers(model);
}

}  // namespace fovea::translation
