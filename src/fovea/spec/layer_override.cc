#include "fovea/spec/layer_override.h"

#include <array>
#include <charconv>
#include <variant>

#include "fovea/base/strings.h"
#include "fovea/spec/attention_spec.h"

namespace fovea {
namespace {

struct SublayerEntry {
  std::string_view name;  // of --attention-NAME and of --attention-layers NAME.LAYERS=SPEC
  std::string AttentionConfig::*option;
  AttentionKind kind;
};
constexpr std::array<SublayerEntry, 3> kSublayers = {{
    {"encoder", &AttentionConfig::attention_encoder, AttentionKind::kSelf},
    {"decoder", &AttentionConfig::attention_decoder, AttentionKind::kCausal},
    {"cross", &AttentionConfig::attention_cross, AttentionKind::kCross},
}};

const SublayerEntry& entry_of(Sublayer sublayer) { return kSublayers.at(static_cast<size_t>(sublayer)); }

int64_t read_layer(std::string_view digits, const std::string& text) {
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), layer);
  if (error != std::errc() || end != digits.data() + digits.size() || layer < 1)
    throw Error(cat("got '", text, "'; expected layers from 1 as in decoder.1-2=window(16) or decoder.6=topk(8)"));
  return layer;
}

Sublayer read_sublayer(const std::string& where, const std::string& text, const ModelConfig& config) {
  std::vector<std::string> known;
  for (const Sublayer sublayer : sublayers_of(config)) {
    known.emplace_back(name_of(sublayer));
    if (known.back() == where) return sublayer;
  }
  for (const SublayerEntry& sublayer : kSublayers) {
    if (sublayer.name == where)
      throw Error(cat("got '", where, "' in '", text, "'; the model has no ", absent_part(config), ", only ",
                      join(known, ", ")));
  }
  throw Error(cat("got '", where, "' in '", text, "'; expected ", known.size() > 1 ? "one of " : "", join(known, ", "),
                  did_you_mean(where, known)));
}

}  // namespace

std::string_view name_of(Sublayer sublayer) { return entry_of(sublayer).name; }

AttentionKind kind_of(Sublayer sublayer) { return entry_of(sublayer).kind; }

std::string AttentionConfig::*option_of(Sublayer sublayer) { return entry_of(sublayer).option; }

std::vector<Sublayer> sublayers_of(const ModelConfig& config) {
  std::vector<Sublayer> sublayers;
  for (const Sublayer sublayer : {Sublayer::kEncoder, Sublayer::kDecoder, Sublayer::kCross})
    if (depth_of(config, sublayer) > 0) sublayers.push_back(sublayer);
  return sublayers;
}

std::string_view absent_part(const ModelConfig& config) {
  if (has_recurrent_decoder(config)) return "self-attention in its decoder";
  return config.dec_depth == 0 ? "decoder" : "encoder";
}

LayerOverride read_layer_override(const std::string& text, const ModelConfig& config) {
  const size_t dot = text.find('.'), equals = text.find('=');
  if (dot == std::string::npos || equals == std::string::npos || dot > equals)
    throw Error(cat("got '", text, "'; expected WHERE.LAYERS=SPEC, e.g. decoder.1-2=window(16)"));
  const std::string layers = text.substr(dot + 1, equals - dot - 1);
  const Sublayer sublayer = read_sublayer(text.substr(0, dot), text, config);
  const size_t dash = layers.find('-');
  const int64_t first = read_layer(std::string_view(layers).substr(0, dash), text);
  const int64_t last = dash == std::string::npos ? first : read_layer(std::string_view(layers).substr(dash + 1), text);
  if (last < first)
    throw Error(cat("got layers ", layers, " in '", text, "'; the second number must not be less than the first"));
  return {sublayer, first, last, text.substr(equals + 1)};
}

namespace {

// The one scheme of an entry of --positions-layers: Rotary or NoPositions.
PositionScheme turn_of(const LayerOverride& layers) {
  const PositionSchemes schemes = parse_positions(layers.spec);
  const bool is_turn = schemes.size() == 1 && (std::holds_alternative<Rotary>(schemes.front()) ||
                                               std::holds_alternative<NoPositions>(schemes.front()));
  if (!is_turn) throw Error(cat("got '", layers.spec, "'; expected rotary, with its arguments or without, or none"));
  return schemes.front();
}

}  // namespace

std::optional<Rotary> rotary_of(const ModelConfig& config, Sublayer sublayer, int64_t layer) {
  std::optional<Rotary> found = find_scheme<Rotary>(parse_positions(config.transformer_positions));
  for (const std::string& entry : config.positions_layers) {
    const LayerOverride layers = read_layer_override(entry, config);
    if (layers.sublayer != sublayer || layer + 1 < layers.first || layers.last < layer + 1) continue;
    found = find_scheme<Rotary>({turn_of(layers)});
  }
  return found;
}

void add_positions_problems(const ModelConfig& config, Problems& problems) {
  for (const std::string& entry : config.positions_layers) {
    problems.add_thrown_by("positions-layers", [&] {
      const LayerOverride layers = read_layer_override(entry, config);
      const int64_t depth = depth_of(config, layers.sublayer);
      const int64_t head = config.transformer_heads > 0 ? head_dim_of(config) : 0;
      if (layers.last > depth)
        throw Error(cat("got layer ", layers.last, " in '", entry, "'; the model has ", depth, " there"));
      if (std::holds_alternative<Rotary>(turn_of(layers)) && head % 2 != 0)
        throw Error(cat("got '", entry, "'; rotary turns pairs of numbers, and each head has ", head,
                        "; choose an even number"));
    });
  }
}

std::string sublayer_text(const ModelConfig& config, Sublayer sublayer) {
  const std::string& own = config.*option_of(sublayer);
  if (!own.empty()) return own;
  if (kind_of(sublayer) != AttentionKind::kCross) return config.attention;
  const LayerSpec spec = parse_layer_spec(config.attention), cross = across_texts(spec);
  return cross == spec ? config.attention : print(cross);
}

}  // namespace fovea
