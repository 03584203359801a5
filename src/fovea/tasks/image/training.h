#pragma once
#include "fovea/tasks/image/config.h"
#include "fovea/tasks/image/measures.h"
#include "fovea/tasks/image/options.h"
#include "fovea/tasks/training.h"

namespace fovea::image {

class ImageTask;
using Training = tasks::Training<ImageTask, Options, ImageConfig, measures>;

}  // namespace fovea::image
