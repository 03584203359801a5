#pragma once
#include "fovea/tasks/language/config.h"
#include "fovea/tasks/language/measures.h"
#include "fovea/tasks/language/options.h"
#include "fovea/tasks/training.h"

namespace fovea::language {

class LanguageTask;
using Training = tasks::Training<LanguageTask, Options, LanguageConfig, measures>;

}  // namespace fovea::language
