#pragma once
#include <memory>

#include "fovea/data/unit_source.h"
#include "fovea/spec/train_config.h"
#include "fovea/tasks/language/config.h"
#include "fovea/tasks/language/options.h"
#include "fovea/text/units.h"

namespace fovea::language {

// The text of --train-sets: held in memory or, with --encoded-text and if it is large, read from a file that is encoded
// once.
std::unique_ptr<data::UnitSource> load_training_text(const TrainConfig& train, const Options& options,
                                                     const LanguageConfig& config, const text::Units& units);

}  // namespace fovea::language
