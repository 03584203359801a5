#pragma once
#include <map>
#include <string>

#include "fovea/base/fields.h"

namespace fovea::nn {

// The treatment of a parameter in training besides the optimiser's step.
struct ParameterRule {
  bool float32 = false;                     // stays float32 in the model when --precision is bfloat16
  double low = -kNoLimit, high = kNoLimit;  // clamped to [low, high] after each update
};

// Rules by the parameters' names in named_parameters(); parameters without a rule may be left out.
using ParameterRules = std::map<std::string, ParameterRule>;

}  // namespace fovea::nn
