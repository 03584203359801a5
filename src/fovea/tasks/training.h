#pragma once
#include <span>

#include "fovea/train/measure.h"

namespace fovea::tasks {

// The parts of a task that `fovea train` needs (setup.h). `measures` returns the table of its measures of validation.
template <class TheTask, class TheOptions, class TheModel, auto measures>
struct Training {
  using Task = TheTask;
  using Options = TheOptions;
  using Model = TheModel;
  static std::span<const train::Measure> known_measures() { return measures().known(); }
};

}  // namespace fovea::tasks
