#pragma once
#include <string>

#include "fovea/nn/identity.h"

// The differences that a new run reports between the model of --pretrained-model and its own.
namespace fovea::train {

// The end of an error about weights that do not fit: the options of that model that differ. "" if nothing is known.
std::string options_to_make_equal(const nn::Identity& pretrained, const nn::Identity& wanted);

// Logs the options of two models that differ although the weights fit, with both values. A warning names the options
// that decide what the weights mean. `folder` is the one of --pretrained-model.
void log_differing_options(const nn::Identity& pretrained, const nn::Identity& wanted, const std::string& folder);

}  // namespace fovea::train
