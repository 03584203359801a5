#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "fovea/ops/optimizers.h"
#include "fovea/spec/train_config.h"
#include "fovea/train/flat_parameters.h"

namespace fovea::train {

// The inputs of an update besides the parameters and their gradients.
struct OptimizerStep {
  int64_t update = 1;  // from 1
  double learn_rate = 0;
  double gradient_scale = 1;  // multiplies all gradients
  // Multiplies the gradient of each parameter, in the order of FlatParameters::views(); empty: 1.
  std::vector<double> tensor_scales = {};
};

// --optimizer adam: Kingma and Ba (2015), with decoupled weight decay (Loshchilov and Hutter 2019).
class Adam {
 public:
  static constexpr std::array kGroups = {"mean/", "variance/"};
  Adam(const TrainConfig& config, const FlatParameters& parameters);
  void step(FlatParameters& parameters, const OptimizerStep& step);
  nn::NamedTensors state(const FlatParameters& parameters) const;

 private:
  double beta1_, beta2_, eps_, weight_decay_;
  at::Tensor mean_, variance_;  // flat
};

// --optimizer adagrad: Duchi et al. (2011).
class Adagrad {
 public:
  static constexpr std::array kGroups = {"sum/"};
  Adagrad(const TrainConfig& config, const FlatParameters& parameters);
  // Makes a step. Like in the training of adaptive spans (Sukhbaatar et al. 2019), tensor_scales shorten the step and
  // leave the sums alone. Adagrad's step does not depend on the size of a gradient that was always scaled.
  void step(FlatParameters& parameters, const OptimizerStep& step);
  nn::NamedTensors state(const FlatParameters& parameters) const;

 private:
  double eps_;
  at::Tensor sum_;  // flat
};

// --optimizer adafactor: Shazeer and Stern (2018) without a first moment.
class Adafactor {
 public:
  // Running means of squared gradients: of a matrix by row and by column, of a vector or a scalar by element.
  static constexpr std::array kGroups = {"row/", "column/", "element/"};
  Adafactor(const TrainConfig& config, const FlatParameters& parameters);
  void step(FlatParameters& parameters, const OptimizerStep& step);
  nn::NamedTensors state(const FlatParameters& parameters) const;

 private:
  ops::AdafactorOptions options_;
  std::vector<std::string> names_;
  std::vector<ops::AdafactorParameter> parameters_;  // views, in the order of names_
};

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
