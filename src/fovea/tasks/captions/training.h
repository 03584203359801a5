#pragma once
#include <span>

#include "fovea/tasks/captions/defaults.h"
#include "fovea/tasks/captions/measures.h"

namespace fovea::captions {

class CaptionTask;

// The parts of this task that `fovea train` needs (tasks/setup.h).
struct Training {
  using Task = CaptionTask;
  using Options = captions::Options;
  using Model = CaptionConfig;
  static std::span<const train::Measure> known_measures() { return measures().known(); }
};

}  // namespace fovea::captions
