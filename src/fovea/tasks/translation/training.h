#pragma once
#include "fovea/models/translation/names.h"
#include "fovea/spec/model_config.h"
#include "fovea/tasks/training.h"
#include "fovea/tasks/translation/measures.h"
#include "fovea/tasks/translation/options.h"

namespace fovea::translation {

class TranslationTask;
using Training = tasks::Training<TranslationTask, Options, EncoderDecoderConfig, measures>;

}  // namespace fovea::translation
