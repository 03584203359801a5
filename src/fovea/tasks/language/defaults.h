#pragma once
#include "fovea/tasks/language/config.h"
#include "fovea/tasks/language/options.h"
#include "fovea/tasks/newest_defaults.h"

namespace fovea::language {

// Sets the newest defaults (spec/defaults.h).
inline void use_defaults(TrainConfig& train, Options& /*options*/, LanguageConfig& model) {
  tasks::use_newest_schedule(train);
  tasks::use_newest_layers(model);
  model.transformer_dropout = 0;  // more text than a training reads
}

}  // namespace fovea::language
