#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/spec/attention_spec.h"

namespace fovea {

enum class Sublayer : uint8_t { kEncoder, kDecoder, kCross };

std::string_view name_of(Sublayer sublayer);  // encoder, decoder, cross
AttentionKind kind_of(Sublayer sublayer);

// Which mechanism each attention of a model uses, as a base of its configuration. Each family of models has the fields
// of its own sublayers.
struct AttentionConfig {
  std::string attention = "full";
  std::string attention_encoder, attention_decoder, attention_cross;  // empty: `attention`
  std::vector<std::string> attention_layers;
  std::string sparsify = "both";
  int64_t attention_seed = 1;

  // The fields in the order of --help. `sublayers` are the fields of the family's sublayers.
  template <class... Sublayers>
  static constexpr auto attention_fields(std::string_view layers_help, const Sublayers&... sublayers) {
    using C = AttentionConfig;
    return std::tuple(
        field("attention", &C::attention, "mechanism of every attention, e.g. 'topk(8)' (see fovea spec)"),
        sublayers..., field("attention-layers", &C::attention_layers, layers_help),
        choice("sparsify", &C::sparsify, "selection by topk or top-p in training only, or in both phases",
               "both|train"),
        number("attention-seed", &C::attention_seed, "random(k) draws its keys from this, a layer and a head", 0,
               9e15));
  }
  static constexpr auto encoder_field() {
    return field("attention-encoder", &AttentionConfig::attention_encoder,
                 "mechanism of the encoder's self-attention (default: --attention)");
  }
  static constexpr auto decoder_field() {
    return field("attention-decoder", &AttentionConfig::attention_decoder,
                 "mechanism of the decoder's self-attention (default: --attention)");
  }
  static constexpr auto cross_field() {
    return field("attention-cross", &AttentionConfig::attention_cross,
                 "mechanism of the cross-attention (default: --attention without what compares positions)");
  }
};

// A spec without its selection, as --sparsify train has it outside training.
LayerSpec without_selection(LayerSpec spec);

// A spec for a query that sees itself and the `keys` - 1 keys before it at most.
LayerSpec within_reach(LayerSpec spec, int64_t keys);

}  // namespace fovea
