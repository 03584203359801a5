#pragma once
#include <span>

#include "fovea/tasks/tagging/defaults.h"
#include "fovea/tasks/tagging/measures.h"

namespace fovea::tagging {

class TaggingTask;

// The parts of this task that `fovea train` needs (tasks/setup.h).
struct Training {
  using Task = TaggingTask;
  using Options = tagging::Options;
  using Model = TaggingConfig;
  static std::span<const train::Measure> known_measures() { return measures().known(); }
};

}  // namespace fovea::tagging
