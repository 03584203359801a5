#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/spec/model_config.h"
#include "fovea/spec/positions.h"

// Reads the texts of a model's mechanisms: --attention, --attention-encoder and the others, --attention-layers.
namespace fovea {

// The option --attention-NAME of a sublayer, in the model's configuration.
std::string AttentionConfig::*option_of(Sublayer sublayer);

// The sublayers that the model has.
std::vector<Sublayer> sublayers_of(const ModelConfig& config);

// The part that a model of one side lacks: "encoder" or "decoder".
std::string_view absent_part(const ModelConfig& config);

// An entry of --attention-layers or --positions-layers: layers first ... last of one sublayer, counted from
// 1, and their mechanism or their positions.
struct LayerOverride {
  Sublayer sublayer;
  int64_t first, last;
  std::string spec;
};
// Throws an Error if the text is not such an entry, or is for a sublayer that the model does not have.
LayerOverride read_layer_override(const std::string& text, const ModelConfig& config);

// How queries and keys of self-attention turn in layer `layer` (from 0): as the last entry of
// --positions-layers says that names the layer, else as --transformer-positions says. None: they do not.
std::optional<Rotary> rotary_of(const ModelConfig& config, Sublayer sublayer, int64_t layer);
// Adds what is wrong with --positions-layers.
void add_positions_problems(const ModelConfig& config, Problems& problems);

// The text of a sublayer's mechanism without --attention-layers. In cross-attention, --attention falls back to a
// mechanism that does not compare the positions of two texts.
std::string sublayer_text(const ModelConfig& config, Sublayer sublayer);

}  // namespace fovea
