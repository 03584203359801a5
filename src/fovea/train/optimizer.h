#pragma once
#include <string>
#include <variant>
#include <vector>

#include "fovea/train/adafactor.h"
#include "fovea/train/adagrad.h"
#include "fovea/train/adam.h"

namespace fovea::train {

// Every optimiser, in the order of kOptimizers. One has
//   T(const TrainConfig&, const FlatParameters&)        state of a new run
//   kGroups                                             the prefixes of its state's names; no other optimiser has them
//   step(FlatParameters&, const OptimizerStep&)         changes the weights, their bfloat16 copy and the state
//   nn::NamedTensors state(const FlatParameters&) const shares memory with the state; names of a group and a parameter
using Optimizer = std::variant<Adam, Adagrad, Adafactor>;

// The one that --optimizer names, as at the beginning of a run.
Optimizer make_optimizer(const TrainConfig& config, const FlatParameters& parameters);

nn::NamedTensors state_of(const Optimizer& optimizer, const FlatParameters& parameters);

// Copies the state out of a checkpoint's `tensors`, which hold other groups, too. Throws an Error that begins with
// `origin` if it is another optimiser's, or if names or shapes differ.
void restore_state(Optimizer& optimizer, const FlatParameters& parameters, const nn::NamedTensors& tensors,
                   const std::string& origin);

}  // namespace fovea::train
