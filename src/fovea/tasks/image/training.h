#pragma once
#include "fovea/tasks/image/config.h"
#include "fovea/tasks/image/measures.h"
#include "fovea/tasks/image/options.h"
#include "fovea/tasks/training.h"

namespace fovea::image {

class ImageTask;
using Training = tasks::Training<ImageTask, Options, ImageConfig, measures>;

inline void use_own_defaults(ImageConfig& model) {
  model.transformer_positions = "image+rotary";
  model.transformer_dropout = 0;
}

}  // namespace fovea::image
