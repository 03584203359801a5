#pragma once
#include <array>
#include <string>
#include <vector>

#include "fovea/ops/optimizers.h"
#include "fovea/spec/train_config.h"
#include "fovea/train/flat_parameters.h"
#include "fovea/train/optimizer_step.h"

namespace fovea::train {

// --optimizer adafactor: Shazeer and Stern (2018) without a first moment. See optimizer.h.
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

}  // namespace fovea::train
