#pragma once
#include <string>

#include "fovea/nn/identity.h"

// What a new run says of the model of --pretrained-model, beside its own.
namespace fovea::train {

// The end of an error about weights that do not fit: the options of that model that differ. "" if nothing is known.
std::string options_to_make_equal(const nn::Identity& pretrained, const nn::Identity& wanted);

// Logs the options of two models that differ although the weights fit, with both values. A warning names those that
// decide what the weights mean. `folder` is the one of --pretrained-model.
void log_differing_options(const nn::Identity& pretrained, const nn::Identity& wanted, const std::string& folder);

}  // namespace fovea::train
