#pragma once
#include <string>
#include <vector>

#include "fovea/spec/attention_config.h"
#include "fovea/spec/stack_config.h"

namespace fovea {

// The fields that fix the parameters and the function of an encoder-only model; stored in every checkpoint.
struct EncoderConfig : StackConfig, AttentionConfig {
  int64_t enc_depth = 6;
  std::string attention_encoder;
  bool embedding_norm = false;
  int64_t token_types = 0;
  std::vector<int64_t> dim_vocabs = {0};  // as trained: one size

  static constexpr auto fields() {
    using C = EncoderConfig;
    return std::tuple_cat(
        StackConfig::fields(number("enc-depth", &C::enc_depth, "layers of the encoder", 1, 1000)),
        std::tuple(
            max_positions_field("rows of learned position vectors; longer sentences are read in parts"),
            norm_epsilon_field(),
            field("embedding-norm", &C::embedding_norm,
                  "embeddings are not multiplied by the root of --dim-emb, and a layer norm follows them (BERT)"),
            number("token-types", &C::token_types, "vectors of token types, added to the embeddings (0: none)", 0,
                   65536),
            field("dim-vocabs", &C::dim_vocabs, "size of the vocabulary, which --vocabs must have; 0: as it is")),
        AttentionConfig::fields(std::tuple(field("attention-encoder", &C::attention_encoder,
                                                 "mechanism of the encoder's self-attention (default: --attention)")),
                                "exceptions: encoder.LAYERS=SPEC, e.g. encoder.1-2=window(16), layers from 1"));
  }
};

// Throws an Error that names every forbidden combination found, one after the other in one line.
void validate(const EncoderConfig& config);

// See attention_config.h.
void refuse_idle_options(const EncoderConfig& config);

// The configuration with other mechanisms, selecting in both phases. Throws an Error if one is for a decoder.
EncoderConfig with_attention(EncoderConfig config, const AttentionOverride& mechanisms);

// The mechanism of layer `layer` (from 0), heads resolved; `sublayer` is kEncoder.
LayerSpec attention_of(const EncoderConfig& config, Sublayer sublayer, int64_t layer);

// See attention_config.h.
bool uses_clauses(const EncoderConfig& config);

}  // namespace fovea
