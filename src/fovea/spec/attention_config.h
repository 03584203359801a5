#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/spec/attention_spec.h"
#include "fovea/spec/config_problems.h"
#include "fovea/spec/run_options.h"
#include "fovea/spec/stack_config.h"

// The choice of a mechanism for each attention of a model. A family of models (model_config.h, decoder_config.h,
// encoder_config.h) says which sorts of attention it has; the rules for its options are here.
namespace fovea {

enum class Sublayer : uint8_t { kEncoder, kDecoder, kCross };

// The fields that every family has, as a base of their configurations.
struct AttentionConfig {
  std::string attention = "full";
  std::string attention_decoder;
  std::vector<std::string> attention_layers;
  std::string sparsify = "both";
  int64_t attention_seed = 1;

  // The fields in the order of --help. `sorts` are those of the family's sorts of attention, as a tuple.
  template <class Sorts>
  static constexpr auto fields(const Sorts& sorts, std::string_view layers_help) {
    using C = AttentionConfig;
    return std::tuple_cat(
        std::tuple(field("attention", &C::attention, "mechanism of every attention, e.g. 'topk(8)' (see fovea spec)")),
        sorts,
        std::tuple(
            field("attention-layers", &C::attention_layers, layers_help),
            choice("sparsify", &C::sparsify, "top-k selection in training only, or in both phases", "both|train"),
            number("attention-seed", &C::attention_seed, "random(k) draws its keys from this, a layer and a head", 0,
                   9e15)));
  }
  static constexpr auto decoder_field() {
    return field("attention-decoder", &AttentionConfig::attention_decoder,
                 "mechanism of the decoder's self-attention (default: --attention)");
  }
};

// One sort of attention of a model.
struct AttentionSort {
  Sublayer sublayer = Sublayer::kDecoder;
  std::string attention;  // --attention-NAME; empty: --attention
  int64_t depth = 0;      // layers
};

// The members of a configuration that the rules read and that an override changes.
struct AttentionTexts {
  std::string attention;
  std::vector<std::string> attention_layers;
  std::string sparsify;
  int64_t heads = 0;
  std::vector<AttentionSort> sorts;
  std::string routing_keys = "auto";     // --routing-keys
  std::string positions = "none";        // --transformer-positions
  std::string span_cold_cache = "none";  // --span-cold-cache
};

// The texts of a family's configuration, which has `sorts`.
template <class Config>
AttentionTexts attention_texts(const Config& config, const std::vector<AttentionSort>& sorts) {
  return {.attention = config.attention,
          .attention_layers = config.attention_layers,
          .sparsify = config.sparsify,
          .heads = config.transformer_heads,
          .sorts = sorts,
          .routing_keys = config.routing_keys,
          .positions = config.transformer_positions,
          .span_cold_cache = config.span_cold_cache};
}

std::string_view name_of(Sublayer sublayer);  // encoder, decoder, cross
AttentionKind kind_of(Sublayer sublayer);

// Whether some mechanism of the encoder is within clauses.
bool uses_clauses(const AttentionTexts& texts);

// Whether some self-attention of a decoder chooses the members of its clusters in the whole text, so that a full pass
// knows more than generation does (docs/attention.md).
bool routes_whole_segments(const AttentionTexts& texts);

// Adds what is wrong with the mechanisms.
void add_attention_problems(const AttentionTexts& texts, Problems& problems);

// Throws a UsageError that names the options of span(limit,ramp) and routed(c,w) that differ from their defaults
// although the model does not use the mechanism. For new trainings only: a saved model may lose the mechanism to an
// override. The configuration has passed validate().
void refuse_idle_options(const AttentionTexts& texts, const StackConfig& config);

// The mechanism of one attention of layer `layer` (from 0), heads resolved.
LayerSpec attention_of(const AttentionTexts& texts, Sublayer sublayer, int64_t layer);

// Returns texts with other mechanisms, selecting in both phases. Throws an Error if one's part is not in the model.
AttentionTexts with_attention(AttentionTexts texts, const AttentionOverride& mechanisms);
// Says in the log if cross-attention uses another mechanism than --attention, which it cannot use.
void log_fallback(const AttentionTexts& texts);
// Copies all but the mechanisms of `sorts` into a family's configuration.
void set_attention(const AttentionTexts& texts, AttentionConfig& config);

// Returns the spec with its selection removed: --sparsify train uses it outside training.
LayerSpec without_selection(LayerSpec spec);

// Returns the spec for a query that sees itself and at most the `keys` - 1 keys before it.
LayerSpec within_reach(LayerSpec spec, int64_t keys);

}  // namespace fovea
