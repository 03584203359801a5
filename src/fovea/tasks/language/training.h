#pragma once
#include "fovea/tasks/language/config.h"
#include "fovea/tasks/language/measures.h"
#include "fovea/tasks/language/options.h"
#include "fovea/tasks/training.h"

namespace fovea::language {

class LanguageTask;
using Training = tasks::Training<LanguageTask, Options, LanguageConfig, measures>;

inline void use_own_defaults(LanguageConfig& model) {
  model.transformer_dropout = 0;  // more text than a training reads
}

}  // namespace fovea::language
