#pragma once
#include "fovea/nn/decoder_only.h"
#include "fovea/spec/run_options.h"
#include "fovea/tasks/language/config.h"
#include "fovea/text/units.h"

namespace fovea::language {

struct LoadedModel {
  nn::DecoderOnly model;
  LanguageConfig config;
  text::Units units;
};

// Sets the threads, and loads the model to its device in its precision. Throws an Error for a model of another task.
LoadedModel load_model(const TrainedModelOptions& options);

}  // namespace fovea::language
