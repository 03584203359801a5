#pragma once
#include <span>

#include "fovea/tasks/image/defaults.h"
#include "fovea/tasks/image/measures.h"

namespace fovea::image {

class ImageTask;

// The parts of this task that `fovea train` needs (tasks/setup.h).
struct Training {
  using Task = ImageTask;
  using Options = image::Options;
  using Model = ImageConfig;
  static std::span<const train::Measure> known_measures() { return measures().known(); }
};

}  // namespace fovea::image
