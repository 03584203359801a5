#include "fovea/spec/encoder_config.h"

#include "fovea/base/strings.h"

namespace fovea {
namespace {

AttentionTexts encoder_texts_of(const EncoderConfig& config) {
  return {.attention = config.attention,
          .attention_layers = config.attention_layers,
          .sparsify = config.sparsify,
          .heads = config.transformer_heads,
          .sorts = {{Sublayer::kEncoder, config.attention_encoder, config.enc_depth}},
          .routing_keys = config.routing_keys};
}

}  // namespace

void validate(const EncoderConfig& config) {
  Problems problems;
  problems.add_ranges(config);
  add_stack_problems(config, problems);
  const std::vector<int64_t>& sizes = config.dim_vocabs;
  problems.add_if(sizes.size() != 1, cat("--dim-vocabs has ", sizes.size(), " numbers; expected one"));
  for (const int64_t size : sizes) problems.add_if(size < 0, cat("--dim-vocabs ", size, " is negative"));
  add_attention_problems(encoder_texts_of(config), problems);
  problems.throw_if_any();
}

EncoderConfig with_attention(EncoderConfig config, const AttentionOverride& mechanisms) {
  const AttentionTexts texts = with_attention(encoder_texts_of(config), mechanisms);
  config.attention = texts.attention;
  config.attention_layers = texts.attention_layers;
  config.sparsify = texts.sparsify;
  config.attention_encoder = texts.sorts[0].attention;
  return config;
}

LayerSpec attention_of(const EncoderConfig& config, Sublayer sublayer, int64_t layer) {
  return attention_of(encoder_texts_of(config), sublayer, layer);
}

}  // namespace fovea
