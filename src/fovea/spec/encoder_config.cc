#include "fovea/spec/encoder_config.h"

namespace fovea {
namespace {

AttentionTexts encoder_texts_of(const EncoderConfig& config) {
  return attention_texts(config, {{Sublayer::kEncoder, config.attention_encoder, config.enc_depth}});
}

}  // namespace

void validate(const EncoderConfig& config) {
  Problems problems;
  problems.add_ranges(config);
  add_stack_problems(config, problems);
  add_vocabulary_problems(config.dim_vocabs, 1, problems);
  add_attention_problems(encoder_texts_of(config), problems);
  problems.throw_if_any();
}

EncoderConfig with_attention(EncoderConfig config, const AttentionOverride& mechanisms) {
  const AttentionTexts texts = with_attention(encoder_texts_of(config), mechanisms);
  set_attention(texts, config);
  config.attention_encoder = texts.sorts[0].attention;
  return config;
}

void refuse_idle_options(const EncoderConfig& config) { refuse_idle_options(encoder_texts_of(config), config); }

LayerSpec attention_of(const EncoderConfig& config, Sublayer sublayer, int64_t layer) {
  return attention_of(encoder_texts_of(config), sublayer, layer);
}

bool uses_clauses(const EncoderConfig& config) { return uses_clauses(encoder_texts_of(config)); }

}  // namespace fovea
