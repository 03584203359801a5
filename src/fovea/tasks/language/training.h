#pragma once
#include <span>

#include "fovea/tasks/language/defaults.h"
#include "fovea/tasks/language/measures.h"

namespace fovea::language {

class LanguageTask;

// What `fovea train` knows of this task (tasks/setup.h).
struct Training {
  using Task = LanguageTask;
  using Options = language::Options;
  using Model = LanguageConfig;
  static std::span<const train::Measure> known_measures() { return measures().known(); }
};

}  // namespace fovea::language
