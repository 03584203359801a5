#pragma once
#include "fovea/tasks/captions/config.h"
#include "fovea/tasks/captions/measures.h"
#include "fovea/tasks/captions/options.h"
#include "fovea/tasks/training.h"

namespace fovea::captions {

class CaptionTask;
using Training = tasks::Training<CaptionTask, Options, CaptionConfig, measures>;

}  // namespace fovea::captions
