#pragma once
#include "fovea/tasks/image/config.h"
#include "fovea/tasks/image/options.h"
#include "fovea/tasks/newest_defaults.h"

namespace fovea::image {

// Sets the newest defaults (spec/defaults.h).
inline void use_defaults(TrainConfig& train, Options& /*options*/, ImageConfig& model) {
  tasks::use_newest_schedule(train);
  tasks::use_newest_layers(model);
  model.transformer_positions = "image+rotary";
  model.transformer_dropout = 0;
}

}  // namespace fovea::image
