#pragma once
#include <string>

#include "fovea/data/columns.h"
#include "fovea/metrics/chunks.h"
#include "fovea/models/tagging/config.h"
#include "fovea/spec/train_config.h"

namespace fovea::tagging {

// Sets the dialect and the form that `auto` stands for: those of the run that goes on, else those of the training data.
// Logs what was found, and warns of chunks in other dialects and of labels that resemble those of chunks. Throws an
// Error if none of the labels has the form that --label-form asks for.
metrics::LabelNotation decide_notation(TaggingConfig& config, const TrainConfig& train, const data::LabelledText& text);

// Warns of labels that resemble those of chunks or O and do not have the form. `option` named the files of the text.
void warn_of_lookalikes(const data::LabelledText& text, const metrics::LabelForm& form, const std::string& option);

}  // namespace fovea::tagging
