#pragma once
#include <concepts>
#include <string>
#include <vector>

#include "fovea/spec/attention_config.h"
#include "fovea/spec/config_problems.h"
#include "fovea/spec/run_options.h"
#include "fovea/spec/stack_config.h"

// The fields that fix the parameters and the function of a model; stored in every checkpoint. A model is an encoder, a
// decoder, or both with cross-attention between them. The three families have their own fields and defaults. A task's
// configuration derives from one of them.
namespace fovea {

struct ModelConfig : StackConfig, AttentionConfig {
  int64_t enc_depth = 6, dec_depth = 6;  // layers; 0: no encoder, no decoder
  bool tied_embeddings = false, tied_embeddings_src = false, tied_embeddings_all = false;
  bool embedding_norm = false;        // of the encoder
  int64_t token_types = 0;            // of the encoder
  std::string decoder_start = "eos";  // what a decoder beside an encoder reads before the first token
  std::string output_bias = "learned";
  std::string language_marks = "source";                       // of a decoder beside an encoder
  std::string transformer_decoder_autoreg = "self-attention";  // of a decoder beside an encoder
  std::vector<int64_t> dim_vocabs = {0};                       // as trained: one size, or the source's and the target's

  static constexpr auto enc_depth_field() {
    return number("enc-depth", &ModelConfig::enc_depth, "layers of the encoder", 1, 1000);
  }
  static constexpr auto dec_depth_field() {
    return number("dec-depth", &ModelConfig::dec_depth, "layers of the decoder", 1, 1000);
  }
  static constexpr auto tied_embeddings_field(std::string_view help) {
    return field("tied-embeddings", &ModelConfig::tied_embeddings, help);
  }
  static constexpr auto dim_vocabs_field() {
    return field("dim-vocabs", &ModelConfig::dim_vocabs,
                 "size of the vocabulary, which --vocabs must have; 0: as it is");
  }
};

struct EncoderDecoderConfig : ModelConfig {
  EncoderDecoderConfig() { dim_vocabs = {0, 0}; }

  bool clause_flags = false;

  static constexpr auto fields() {
    using C = EncoderDecoderConfig;
    return std::tuple_cat(
        stack_fields(enc_depth_field(), dec_depth_field()),
        std::tuple(
            tied_embeddings_field("target embeddings are the output layer's weights"),
            field("tied-embeddings-src", &C::tied_embeddings_src, "source and target embeddings are one"),
            field("tied-embeddings-all", &C::tied_embeddings_all, "all three are one (one vocabulary)"),
            max_positions_field(
                "rows of learned position vectors; longer training text is refused, longer input to translate cut"),
            norm_epsilon_field(),
            choice("decoder-start", &C::decoder_start,
                   "what the decoder reads before the first token: the vector of </s>, or zeros, as Marian's models",
                   "eos|zeros"),
            choice(
                "transformer-decoder-autoreg", &C::transformer_decoder_autoreg,
                "how the decoder sees the words before: self-attention, or a recurrent unit with a state of --dim-emb "
                "numbers in its place (ssru: Marian's rnn with --dec-cell ssru)",
                "self-attention|ssru"),
            choice("output-bias", &C::output_bias, "bias of the output layer: learned, or none (M2M100, NLLB)",
                   "learned|none"),
            choice("language-marks", &C::language_marks,
                   "marks such as >>de<< in the vocabularies: of the wanted language, at the beginning of the source "
                   "(OPUS-MT), or of both sides, each at the beginning of its own (M2M100, NLLB)",
                   "source|both"),
            field("dim-vocabs", &C::dim_vocabs, "sizes of the vocabularies, which --vocabs must have; 0: as they are"),
            field(
                "clause-flags", &C::clause_flags,
                "read a piece <c1> to <c6> before each signal word of the source, the level of its kind; the source's "
                "vocabulary is one of vocab --clause-flags")),
        attention_fields("exceptions: WHERE.LAYERS=SPEC, e.g. encoder.1-2=window(16) cross.6=topk(8), layers from 1",
                         encoder_field(), decoder_field(), cross_field()));
  }
};

struct DecoderConfig : ModelConfig {
  DecoderConfig() { enc_depth = 0; }

  static constexpr auto fields() {
    return std::tuple_cat(
        stack_fields(dec_depth_field()),
        std::tuple(tied_embeddings_field("embeddings are the output layer's weights"),
                   max_positions_field("rows of learned position vectors; no longer text can be read or made"),
                   norm_epsilon_field(), norm_gain_field(), transformer_biases_field(), transformer_dim_head_field(),
                   transformer_norm_qk_field(), attention_scalar_field(), positions_layers_field(),
                   embedding_scale_field(), logit_softcap_field(), dim_vocabs_field()),
        attention_fields("exceptions: decoder.LAYERS=SPEC, e.g. decoder.1-2=window(16), layers from 1",
                         decoder_field()));
  }
};

struct EncoderConfig : ModelConfig {
  EncoderConfig() { dec_depth = 0; }

  static constexpr auto fields() {
    using C = EncoderConfig;
    return std::tuple_cat(
        stack_fields(enc_depth_field()),
        std::tuple(
            max_positions_field("rows of learned position vectors; longer sentences are read in parts"),
            norm_epsilon_field(),
            field("embedding-norm", &C::embedding_norm,
                  "embeddings are not multiplied by the root of --dim-emb, and a layer norm follows them (BERT)"),
            number("token-types", &C::token_types, "vectors of token types, added to the embeddings (0: none)", 0,
                   65536),
            dim_vocabs_field()),
        attention_fields("exceptions: encoder.LAYERS=SPEC, e.g. encoder.1-2=window(16), layers from 1",
                         encoder_field()));
  }
};

// Adds every forbidden combination.
void add_problems(const ModelConfig& config, Media media, Problems& problems);
// Adds what is wrong with the mechanisms of a model; add_problems() does so too.
void add_attention_problems(const ModelConfig& config, Problems& problems);

// Throws a UsageError that names every value out of its range and every forbidden combination, one after the other in
// one line. A configuration with an image_shape is of a model that reads images.
template <std::derived_from<ModelConfig> Config>
void validate(const Config& config) {
  Problems problems;
  problems.add_ranges(config);
  add_problems(
      config, requires { config.image_shape; } ? Media::kImages : Media::kText, problems);
  problems.throw_if_any();
}

// Throws a UsageError that names the options of span(limit,ramp) and routed(c,w) that differ from their defaults
// although the model does not use the mechanism. For new trainings only: a saved model may lose the mechanism to an
// override. The configuration has passed validate().
void refuse_idle_options(const ModelConfig& config);

// Whether the decoder's layers have an SSRU in the place of self-attention.
bool has_recurrent_decoder(const ModelConfig& config);

// Layers with this attention; 0: the model has none.
int64_t depth_of(const ModelConfig& config, Sublayer sublayer);

// The mechanism of one attention of layer `layer` (from 0), heads resolved.
LayerSpec attention_of(const ModelConfig& config, Sublayer sublayer, int64_t layer);

// The configuration with other mechanisms, which select in both phases. Throws a UsageError if one is for a part that
// the model does not have, or cannot be used there.
ModelConfig with_attention(ModelConfig config, const AttentionOverride& mechanisms);

// Says in the log if cross-attention uses another mechanism than --attention, which it cannot use.
void log_fallback(const ModelConfig& config);

// Whether some mechanism of the encoder is within clauses.
bool uses_clauses(const ModelConfig& config);

// Whether some self-attention of a decoder chooses the members of its clusters in the whole text, so that a full pass
// knows more than generation does (docs/attention.md).
bool routes_whole_segments(const ModelConfig& config);

}  // namespace fovea
