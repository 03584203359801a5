#pragma once
#include <concepts>

#include "fovea/spec/model_config.h"
#include "fovea/spec/testing/classic_layers.h"

namespace fovea::tasks {

// Sets the layers and the sizes of a model that trains in a moment.
template <class Model>
void set_narrow_layers(Model& model) {
  set_classic_layers(model, std::derived_from<Model, DecoderConfig> ? "pre" : "post");
  model.dim_emb = 16;
  model.transformer_heads = 2;
  model.transformer_dim_ffn = 24;
  model.transformer_dropout = 0.1;
}

}  // namespace fovea::tasks
