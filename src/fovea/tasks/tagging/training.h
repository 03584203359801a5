#pragma once
#include "fovea/models/tagging/config.h"
#include "fovea/tasks/tagging/measures.h"
#include "fovea/tasks/tagging/options.h"
#include "fovea/tasks/training.h"

namespace fovea::tagging {

class TaggingTask;
using Training = tasks::Training<TaggingTask, Options, TaggingConfig, measures>;

}  // namespace fovea::tagging
