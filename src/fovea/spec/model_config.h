#pragma once
#include <string>
#include <vector>

#include "fovea/spec/attention_config.h"
#include "fovea/spec/stack_config.h"

namespace fovea {

// The fields that fix the parameters and the function of an encoder-decoder model; stored in every checkpoint.
struct ModelConfig : StackConfig, AttentionConfig {
  int64_t enc_depth = 6, dec_depth = 6;
  bool tied_embeddings = false, tied_embeddings_src = false, tied_embeddings_all = false;
  std::vector<int64_t> dim_vocabs = {0, 0};  // as trained: source, target
  std::string attention_encoder, attention_cross;
  bool clause_flags = false;

  static constexpr auto fields() {
    using C = ModelConfig;
    return std::tuple_cat(
        StackConfig::fields(number("enc-depth", &C::enc_depth, "layers of the encoder", 1, 1000),
                            number("dec-depth", &C::dec_depth, "layers of the decoder", 1, 1000)),
        std::tuple(
            field("tied-embeddings", &C::tied_embeddings, "target embeddings are the output layer's weights"),
            field("tied-embeddings-src", &C::tied_embeddings_src, "source and target embeddings are one"),
            field("tied-embeddings-all", &C::tied_embeddings_all, "all three are one (one vocabulary)"),
            max_positions_field(
                "rows of learned position vectors; longer training text is refused, longer input to translate cut"),
            field("dim-vocabs", &C::dim_vocabs, "sizes of the vocabularies, which --vocabs must have; 0: as they are"),
            field(
                "clause-flags", &C::clause_flags,
                "read a piece <c1> to <c6> before each signal word of the source, the level of its kind; the source's "
                "vocabulary is one of vocab --clause-flags")),
        AttentionConfig::fields(
            std::tuple(
                field("attention-encoder", &C::attention_encoder,
                      "mechanism of the encoder's self-attention (default: --attention)"),
                decoder_field(),
                field("attention-cross", &C::attention_cross,
                      "mechanism of the cross-attention (default: --attention without what compares positions)")),
            "exceptions: WHERE.LAYERS=SPEC, e.g. encoder.1-2=window(16) cross.6=topk(8), layers from 1"));
  }
};

// Throws an Error that names every forbidden combination found, one after the other in one line.
void validate(const ModelConfig& config);

// See attention_config.h.
void refuse_idle_options(const ModelConfig& config);

// See attention_config.h.
void log_fallback(const ModelConfig& config);

// The configuration with other mechanisms, selecting in both phases.
ModelConfig with_attention(ModelConfig config, const AttentionOverride& mechanisms);

// The mechanism of one attention of layer `layer` (from 0), heads resolved.
LayerSpec attention_of(const ModelConfig& config, Sublayer sublayer, int64_t layer);

// See attention_config.h.
bool routes_whole_segments(const ModelConfig& config);
bool uses_clauses(const ModelConfig& config);

}  // namespace fovea
