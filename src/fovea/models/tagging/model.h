#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <optional>

#include "fovea/models/tagging/config.h"
#include "fovea/nn/model.h"

namespace fovea::tagging {

// An encoder whose vector of a word's first piece gives the word's label. W words, L labels.
//
// Names of parameters, all stable:
//   encoder...                 those of nn/model.h
//   output.weight [L, M], output.bias [L]
class TaggerImpl : public torch::nn::Module {
 public:
  // Initialises by `seed` alone; without one, all weights are 0, to be loaded.
  TaggerImpl(const TaggingConfig& config, int64_t labels, std::optional<int64_t> seed);

  const ModelConfig& config() const { return encoder->config(); }
  // See nn/model.h.
  void override_attention(const AttentionOverride& mechanisms) { encoder->override_attention(mechanisms); }

  // The vectors of words before the output layer, [W, M]; firsts [W] int64 are the places of their first pieces.
  at::Tensor words(const nn::EncoderInput& input, const at::Tensor& firsts, const nn::ForwardContext& context);

  nn::Model encoder;
  at::Tensor output_weight, output_bias;

 private:
  double dropout_;
};
TORCH_MODULE(Tagger);

}  // namespace fovea::tagging
