#pragma once
#include <span>

#include "fovea/tasks/language/defaults.h"
#include "fovea/tasks/language/measures.h"

namespace fovea::language {

class LanguageTask;

// The parts of this task that `fovea train` needs (tasks/setup.h).
struct Training {
  using Task = LanguageTask;
  using Options = language::Options;
  using Model = LanguageConfig;
  static std::span<const train::Measure> known_measures() { return measures().known(); }
};

}  // namespace fovea::language
