#pragma once
#include <torch/torch.h>

#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/nn/transformer.h"

// Small models and batches for the tests of this folder.
namespace fovea::nn::testing {

inline ModelConfig tiny(const std::string& attention = "full") {
  ModelConfig config;
  config.dim_emb = 12;
  config.enc_depth = 2;
  config.dec_depth = 2;
  config.transformer_heads = 3;
  config.transformer_dim_ffn = 10;
  config.transformer_dropout = 0;
  config.dim_vocabs = {17, 19};
  config.attention = attention;
  return config;
}

struct Packed {
  at::Tensor tokens, offsets;
};

inline Packed random_batch(const std::vector<int64_t>& lengths, int64_t vocabulary, uint64_t seed) {
  Rng rng(seed);
  std::vector<int64_t> offsets = {0}, tokens;
  for (const int64_t length : lengths) {
    offsets.push_back(offsets.back() + length);
    for (int64_t i = 0; i < length; ++i)
      tokens.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(vocabulary))));
  }
  return {torch::tensor(tokens, at::kLong), torch::tensor(offsets, at::kLong)};
}

// Whatever starts at a constant gets random values, so that a parameter left out shows.
inline void perturb(Transformer& model) {
  const torch::NoGradGuard guard;
  uint64_t seed = 7;
  for (auto& parameter : model->parameters()) {
    Rng rng(++seed);
    at::Tensor noise = torch::empty(parameter.sizes(), at::kDouble);
    for (int64_t i = 0; i < noise.numel(); ++i) noise.data_ptr<double>()[i] = 0.3 * rng.normal();
    parameter.add_(noise.to(parameter.dtype()));
  }
}

inline Transformer make(const ModelConfig& config, at::ScalarType type = at::kDouble) {
  Transformer model(config, 3);
  model->to(type);
  perturb(model);
  return model;
}

// Hidden states of the full pass, [T, M].
inline at::Tensor full_pass(Transformer& model, const Packed& source, const Packed& target) {
  const torch::NoGradGuard guard;
  const at::Tensor memory = model->encode(source.tokens, source.offsets, {});
  return model->decode(target.tokens, target.offsets, memory, source.offsets, {});
}

}  // namespace fovea::nn::testing
