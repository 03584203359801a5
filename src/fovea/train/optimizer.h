#pragma once
#include <string>
#include <variant>
#include <vector>

#include "fovea/train/adafactor.h"
#include "fovea/train/adagrad.h"
#include "fovea/train/adam.h"

namespace fovea::train {

// The optimisers, in the order of kOptimizers. Each type T has
//   T(const TrainConfig&, const FlatParameters&)          makes the state of a new run
//   kGroups                                               prefixes of its state's names, which no other optimiser uses
//   void step(FlatParameters&, const OptimizerStep&)      changes the weights, their bfloat16 copy and the state
//   nn::NamedTensors state(const FlatParameters&) const   shares memory; each name is a group and a parameter's name
using Optimizer = std::variant<Adam, Adagrad, Adafactor>;

// Makes the optimiser that --optimizer names, with the state of a new run.
Optimizer make_optimizer(const TrainConfig& config, const FlatParameters& parameters);

nn::NamedTensors state_of(const Optimizer& optimizer, const FlatParameters& parameters);

// Copies the state from the `tensors` of a checkpoint, which may hold other groups too. Throws an Error that begins
// with `origin` if they are the state of another optimiser, or if names or shapes differ.
void restore_state(Optimizer& optimizer, const FlatParameters& parameters, const nn::NamedTensors& tensors,
                   const std::string& origin);

}  // namespace fovea::train
