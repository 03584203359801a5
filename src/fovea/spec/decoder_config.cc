#include "fovea/spec/decoder_config.h"

#include "fovea/base/strings.h"

namespace fovea {
namespace {

AttentionTexts decoder_texts_of(const DecoderConfig& config) {
  return {.attention = config.attention,
          .attention_layers = config.attention_layers,
          .sparsify = config.sparsify,
          .heads = config.transformer_heads,
          .sorts = {{Sublayer::kDecoder, config.attention_decoder, config.dec_depth}},
          .routing_keys = config.routing_keys,
          .positions = config.transformer_positions,
          .span_cold_cache = config.span_cold_cache};
}

}  // namespace

void validate(const DecoderConfig& config) {
  Problems problems;
  problems.add_ranges(config);
  add_stack_problems(config, problems);
  const std::vector<int64_t>& sizes = config.dim_vocabs;
  problems.add_if(sizes.size() != 1, cat("--dim-vocabs has ", sizes.size(), " numbers; expected one"));
  for (const int64_t size : sizes) problems.add_if(size < 0, cat("--dim-vocabs ", size, " is negative"));
  add_attention_problems(decoder_texts_of(config), problems);
  problems.throw_if_any();
}

DecoderConfig with_attention(DecoderConfig config, const AttentionOverride& mechanisms) {
  const AttentionTexts texts = with_attention(decoder_texts_of(config), mechanisms);
  config.attention = texts.attention;
  config.attention_layers = texts.attention_layers;
  config.sparsify = texts.sparsify;
  config.attention_decoder = texts.sorts[0].attention;
  return config;
}

LayerSpec attention_of(const DecoderConfig& config, Sublayer sublayer, int64_t layer) {
  return attention_of(decoder_texts_of(config), sublayer, layer);
}

bool routes_whole_segments(const DecoderConfig& config) { return routes_whole_segments(decoder_texts_of(config)); }

}  // namespace fovea
