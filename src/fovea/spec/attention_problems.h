#pragma once
#include "fovea/spec/config_problems.h"
#include "fovea/spec/model_config.h"

namespace fovea {

// Adds what is wrong with the mechanisms of a model.
void add_attention_problems(const ModelConfig& config, Problems& problems);

}  // namespace fovea
