#pragma once
#include <memory>

#include "fovea/nn/model.h"
#include "fovea/ops/prepacked_layer.h"

namespace fovea::models {

// A model with its decoder and output layer laid out for a search or for sampling; its weights do not change while this
// lives.
struct SearchModel {
  explicit SearchModel(nn::Model live, ops::PrepackedLayer::Format format = ops::PrepackedLayer::Format::kExact);

  nn::Model model;
  std::shared_ptr<const nn::PrepackedStack> decoder;
  ops::PrepackedLayer output;
};

}  // namespace fovea::models
