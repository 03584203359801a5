#pragma once

namespace fovea::tasks {

// Sets the sizes of a model that trains in a moment.
template <class Model>
void set_narrow_layers(Model& model) {
  model.dim_emb = 16;
  model.transformer_heads = 2;
  model.transformer_dim_ffn = 24;
}

}  // namespace fovea::tasks
