#include "fovea/models/search_model.h"

#include <utility>

namespace fovea::models {

// Logits rounded to bf16 would have two digits, so the output layer is never computed in that.
SearchModel::SearchModel(nn::Model live, ops::PrepackedLayer::Format format)
    : model(std::move(live)),
      decoder(model->pack(format)),
      output({.weight = model->output_weight().to(at::kFloat),
              .bias = model->output_bias().defined() ? model->output_bias().to(at::kFloat) : at::Tensor(),
              .softcap = model->output_layer().softcap},
             format) {}

}  // namespace fovea::models
