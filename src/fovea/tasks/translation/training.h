#pragma once
#include <span>

#include "fovea/models/translation/names.h"
#include "fovea/tasks/translation/defaults.h"
#include "fovea/tasks/translation/measures.h"

namespace fovea::translation {

class TranslationTask;

// The parts of this task that `fovea train` needs (tasks/setup.h).
struct Training {
  using Task = TranslationTask;
  using Options = translation::Options;
  using Model = EncoderDecoderConfig;
  static std::span<const train::Measure> known_measures() { return measures().known(); }
};

}  // namespace fovea::translation
