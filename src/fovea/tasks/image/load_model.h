#pragma once
#include "fovea/nn/model.h"
#include "fovea/spec/run_options.h"
#include "fovea/tasks/image/config.h"

namespace fovea::image {

struct LoadedModel {
  nn::Model model;
  ImageConfig config;
};

// Sets the threads, and loads the model to its device in its precision. Throws an Error for a model of another task.
LoadedModel load_model(const TrainedModelOptions& options);

}  // namespace fovea::image
