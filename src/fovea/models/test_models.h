#pragma once
#include <torch/torch.h>

#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/nn/model.h"
#include "fovea/spec/testing/classic_layers.h"

namespace fovea::models {

// A small model of 17 units in float32 whose weights are all random, so that what it predicts depends on what it reads.
inline nn::Model test_model(const std::string& attention, const std::string& positions = "sinusoidal",
                            const std::string& norm = "pre") {
  DecoderConfig config;
  set_classic_layers(config);
  config.dim_emb = 12;
  config.dec_depth = 2;
  config.transformer_heads = 3;
  config.transformer_dim_ffn = 10;
  config.dim_vocabs = {17};
  config.attention = attention;
  config.transformer_positions = positions;
  config.transformer_norm = norm;
  config.max_positions = 100;
  nn::Model model(config, 3);
  const torch::NoGradGuard guard;
  Rng rng(7);
  for (auto& parameter : model->parameters()) {
    float* data = parameter.mutable_data_ptr<float>();
    for (int64_t i = 0; i < parameter.numel(); ++i) data[i] += 0.3F * static_cast<float>(rng.normal());
  }
  model->eval();
  return model;
}

// log p of each unit behind `inputs`, by one full pass over them alone: [V] float64.
inline at::Tensor next_log_probs(nn::Model model, const std::vector<int64_t>& inputs) {
  const torch::NoGradGuard guard;
  const at::Tensor hidden =
      model->decode({torch::tensor(inputs, at::kLong), torch::tensor({int64_t{0}, std::ssize(inputs)})}, {})[-1];
  const at::Tensor logits = at::matmul(model->output_weight().to(at::kDouble), hidden.to(at::kDouble));
  const double cap = model->output_layer().softcap;
  const at::Tensor biased = logits + model->output_bias();
  return at::log_softmax(cap > 0 ? at::tanh(biased / cap) * cap : biased, 0);
}

}  // namespace fovea::models
