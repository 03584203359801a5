#pragma once
#include <string>
#include <vector>

#include "fovea/spec/attention_config.h"
#include "fovea/spec/stack_config.h"

namespace fovea {

// The fields that fix the parameters and the function of a decoder-only model; stored in every checkpoint.
struct DecoderConfig : StackConfig, AttentionConfig {
  DecoderConfig() { transformer_norm = "pre"; }

  int64_t dec_depth = 6;
  bool tied_embeddings = false;
  std::vector<int64_t> dim_vocabs = {0};  // as trained: one size

  static constexpr auto fields() {
    using C = DecoderConfig;
    return std::tuple_cat(
        StackConfig::fields(number("dec-depth", &C::dec_depth, "layers of the decoder", 1, 1000)),
        std::tuple(
            field("tied-embeddings", &C::tied_embeddings, "embeddings are the output layer's weights"),
            max_positions_field("rows of learned position vectors; no longer text can be read or made"),
            field("dim-vocabs", &C::dim_vocabs, "size of the vocabulary, which --vocabs must have; 0: as it is")),
        AttentionConfig::fields(std::tuple(decoder_field()),
                                "exceptions: decoder.LAYERS=SPEC, e.g. decoder.1-2=window(16), layers from 1"));
  }
};

// Throws an Error that names every forbidden combination found, one after the other in one line.
void validate(const DecoderConfig& config);

// See attention_config.h.
void refuse_idle_options(const DecoderConfig& config);

// The configuration with other mechanisms, selecting in both phases. Throws an Error if one is for an encoder.
DecoderConfig with_attention(DecoderConfig config, const AttentionOverride& mechanisms);

// The mechanism of layer `layer` (from 0), heads resolved; `sublayer` is kDecoder.
LayerSpec attention_of(const DecoderConfig& config, Sublayer sublayer, int64_t layer);

// See attention_config.h.
bool routes_whole_segments(const DecoderConfig& config);

}  // namespace fovea
