#pragma once
#include "fovea/spec/model_config.h"

// Models whose decoder's routed heads choose the members of their clusters in the whole text. A full pass, as in
// training and scoring, then knows more than generation does.
namespace fovea::models {

// Warns that probabilities of a full pass are optimistic if the model is such a one; once, however often it is called.
// Every function that computes probabilities of given texts calls this, and so does the beginning of a training.
void warn_of_whole_segments(const ModelConfig& config);

}  // namespace fovea::models
