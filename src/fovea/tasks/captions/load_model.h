#pragma once
#include "fovea/nn/model.h"
#include "fovea/spec/run_options.h"
#include "fovea/tasks/captions/config.h"
#include "fovea/text/vocab.h"

namespace fovea::captions {

struct LoadedCaptionModel {
  nn::Model model;
  CaptionConfig config;
  text::Vocab vocab;
};

// Returns the model of a run or checkpoint, in evaluation, on its device, in its precision, and with the mechanisms
// that `options` replace. Sets the threads.
LoadedCaptionModel load_caption_model(const TrainedModelOptions& options);

}  // namespace fovea::captions
