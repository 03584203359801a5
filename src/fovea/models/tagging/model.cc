#include "fovea/models/tagging/model.h"

#include <ATen/ops/index_select.h>

#include "fovea/nn/embedding.h"
#include "fovea/nn/layers.h"

namespace fovea::tagging {
namespace {

constexpr uint64_t kWordDropout = 1000;  // the use of the pass's seed; stacks use numbers below

}  // namespace

TaggerImpl::TaggerImpl(const TaggingConfig& config, int64_t labels, std::optional<int64_t> seed)
    : encoder(register_module("encoder", nn::Model(config, seed))), dropout_(config.transformer_dropout) {
  const nn::Output output = nn::make_output(*register_module("output", std::make_shared<torch::nn::Module>()),
                                            {labels, config.dim_emb}, {}, nn::InitScope(seed));
  output_weight = output.weight;
  output_bias = output.bias;
}

at::Tensor TaggerImpl::words(const nn::EncoderInput& input, const at::Tensor& firsts,
                             const nn::ForwardContext& context) {
  const at::Tensor words = encoder->encode(input, context).index_select(0, firsts);
  if (!context.training || dropout_ == 0) return words;
  return ops::dropout(words, {.rate = dropout_, .seed = nn::derive_seed(context.dropout_seed, kWordDropout)});
}

}  // namespace fovea::tagging
