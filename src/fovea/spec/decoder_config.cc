#include "fovea/spec/decoder_config.h"

namespace fovea {
namespace {

AttentionTexts decoder_texts_of(const DecoderConfig& config) {
  return attention_texts(config, {{Sublayer::kDecoder, config.attention_decoder, config.dec_depth}});
}

}  // namespace

void validate(const DecoderConfig& config) {
  Problems problems;
  problems.add_ranges(config);
  add_stack_problems(config, problems);
  add_vocabulary_problems(config.dim_vocabs, 1, problems);
  add_attention_problems(decoder_texts_of(config), problems);
  problems.throw_if_any();
}

DecoderConfig with_attention(DecoderConfig config, const AttentionOverride& mechanisms) {
  const AttentionTexts texts = with_attention(decoder_texts_of(config), mechanisms);
  set_attention(texts, config);
  config.attention_decoder = texts.sorts[0].attention;
  return config;
}

void refuse_idle_options(const DecoderConfig& config) { refuse_idle_options(decoder_texts_of(config), config); }

LayerSpec attention_of(const DecoderConfig& config, Sublayer sublayer, int64_t layer) {
  return attention_of(decoder_texts_of(config), sublayer, layer);
}

bool routes_whole_segments(const DecoderConfig& config) { return routes_whole_segments(decoder_texts_of(config)); }

}  // namespace fovea
