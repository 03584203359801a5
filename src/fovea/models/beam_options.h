#pragma once
#include "fovea/search/beam.h"
#include "fovea/spec/beam_config.h"

namespace fovea::models {

// Returns the options of a search that `config` asks for; the vocabulary and its tokens are left to the model.
search::BeamOptions beam_options(const BeamConfig& config);

}  // namespace fovea::models
