#pragma once
#include <string>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/spec/attention_spec.h"
#include "fovea/spec/run_options.h"

namespace fovea {

// What fixes a model's parameters and its function; stored in every checkpoint. Marian's names where it has them.
struct ModelConfig {
  int64_t dim_emb = 512;
  int64_t enc_depth = 6, dec_depth = 6;
  int64_t transformer_heads = 8;
  int64_t transformer_dim_ffn = 2048;
  std::string transformer_norm = "post";
  std::string transformer_positions = "sinusoidal";
  std::string transformer_ffn_activation = "relu";
  double transformer_dropout = 0.1;
  double transformer_dropout_attention = 0;
  double transformer_dropout_ffn = 0;
  bool tied_embeddings = false, tied_embeddings_src = false, tied_embeddings_all = false;
  int64_t max_positions = 1024;
  std::vector<int64_t> dim_vocabs = {0, 0};  // as trained: source, target
  std::string attention = "full";
  std::string attention_encoder, attention_decoder, attention_cross;
  std::vector<std::string> attention_layers;
  std::string sparsify = "both";
  int64_t attention_seed = 1;

  static constexpr auto fields() {
    using C = ModelConfig;
    return std::tuple(
        number("dim-emb", &C::dim_emb, "width of the model", 1, 65536),
        number("enc-depth", &C::enc_depth, "layers of the encoder", 1, 1000),
        number("dec-depth", &C::dec_depth, "layers of the decoder", 1, 1000),
        number("transformer-heads", &C::transformer_heads, "attention heads; must divide --dim-emb", 1, 1024),
        number("transformer-dim-ffn", &C::transformer_dim_ffn, "width inside the feed-forward blocks", 1, 1 << 20),
        choice("transformer-norm", &C::transformer_norm, "layer norm after each block's residual, or before the block",
               "post|pre"),
        choice("transformer-positions", &C::transformer_positions, "position vectors", "sinusoidal|learned"),
        choice("transformer-ffn-activation", &C::transformer_ffn_activation, "between the two feed-forward layers",
               "relu|gelu"),
        number("transformer-dropout", &C::transformer_dropout, "dropout on embeddings and residuals", 0, 0.99),
        number("transformer-dropout-attention", &C::transformer_dropout_attention, "dropout on attention weights", 0,
               0.99),
        number("transformer-dropout-ffn", &C::transformer_dropout_ffn, "dropout inside the feed-forward blocks", 0,
               0.99),
        field("tied-embeddings", &C::tied_embeddings, "target embeddings are the output layer's weights"),
        field("tied-embeddings-src", &C::tied_embeddings_src, "source and target embeddings are one"),
        field("tied-embeddings-all", &C::tied_embeddings_all, "all three are one (one vocabulary)"),
        number("max-positions", &C::max_positions,
               "rows of learned position vectors; longer training text is refused, longer input to translate cut", 1,
               1 << 24),
        field("dim-vocabs", &C::dim_vocabs, "sizes of the vocabularies, which --vocabs must have; 0: as they are"),
        field("attention", &C::attention, "mechanism of every attention, e.g. 'topk(8)' (see fovea spec)"),
        field("attention-encoder", &C::attention_encoder, "of the encoder's self-attention (default: --attention)"),
        field("attention-decoder", &C::attention_decoder, "of the decoder's self-attention (default: --attention)"),
        field("attention-cross", &C::attention_cross, "of the cross-attention (default: --attention)"),
        field("attention-layers", &C::attention_layers,
              "exceptions: WHERE.LAYERS=SPEC, e.g. encoder.1-2=window(16) cross.6=topk(8), layers from 1"),
        choice("sparsify", &C::sparsify, "top-k selection in training only, or in both phases", "both|train"),
        number("attention-seed", &C::attention_seed, "random(k) draws its keys from this, a layer and a head", 0,
               9e15));
  }
};

// Throws an Error that names every forbidden combination found, one after the other in one line.
void validate(const ModelConfig& config);

enum class Sublayer : uint8_t { kEncoder, kDecoder, kCross };

// The configuration with other mechanisms, selecting in both phases.
ModelConfig with_attention(ModelConfig config, const AttentionOverride& mechanisms);

// The mechanism of one attention of layer `layer` (from 0), heads resolved.
LayerSpec attention_of(const ModelConfig& config, Sublayer sublayer, int64_t layer);

// The longest text that the model takes and makes, in tokens without </s>, and no more than `limit`: learned positions
// end, and one of them is </s>'s.
int64_t longest_text(const ModelConfig& config, int64_t limit);

// The same spec with its selection removed: what --sparsify train uses outside training.
LayerSpec without_selection(LayerSpec spec);

}  // namespace fovea
