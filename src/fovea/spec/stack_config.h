#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/spec/config_problems.h"
#include "fovea/spec/positions.h"

namespace fovea {

// The options of routed(c,w) in a model, as a base of configurations. The defaults are those of the published code,
// except for the start.
struct RoutingConfig {
  std::string routing_start = "fixed";
  std::string routing_self = "keep";
  std::string routing_keys = "auto";
  std::string routing_scale = "none";
  double routing_decay = 0.999;
  double routing_commitment = 1e-4;

  static constexpr auto fields() {
    using C = RoutingConfig;
    return std::tuple(
        choice("routing-start", &C::routing_start,
               "running counts of routed(c,w) start at 1, or at 0 as published, which routes badly for 100 updates",
               "fixed|faithful"),
        choice("routing-self", &C::routing_self,
               "where queries are keys, a query's own key: kept, only if there is no other, or never",
               "keep|last|never"),
        choice("routing-keys", &C::routing_keys,
               "keys of routed(c,w): the queries (shared) or projections of their own, of which a decoder's query sees "
               "those up to itself; auto: shared in a decoder's self-attention, and with causal",
               "auto|shared|own"),
        choice("routing-scale", &C::routing_scale, "scores of routed(c,w) are multiplied by nothing, or by 1 / sqrt(D)",
               "none|sqrt"),
        number("routing-decay", &C::routing_decay, "decay of the centroids' moving averages, at each update", 0, 1),
        number("routing-commitment", &C::routing_commitment,
               "factor of the loss that pulls queries and keys to their centroids", 0, 1e6));
  }
};

// The options of dsa(k) in a model, as a base of configurations.
struct IndexerConfig {
  int64_t index_heads = 0;
  int64_t index_width = 64;
  int64_t index_candidates = 4;

  static constexpr auto fields() {
    using C = IndexerConfig;
    return std::tuple(
        number("index-heads", &C::index_heads,
               "heads of the indexer of dsa(k), which divide --transformer-heads (0: 4, or the most below it that do)",
               0, 1024),
        number("index-width", &C::index_width, "width of a head of the indexer of dsa(k)", 1, 1024),
        number("index-candidates", &C::index_candidates,
               "the indexer of dsa(k) learns from this many times k keys of each query, which it scores highest", 1,
               1024));
  }
};

// The options of span(limit,ramp) in a model, as a base of configurations. The defaults are those of the published
// small model, except for the beginning of a text.
struct SpanConfig {
  double span_start = 0;
  double span_loss = 2e-6;
  std::string span_cold_cache = "none";

  static constexpr auto fields() {
    using C = SpanConfig;
    return std::tuple(
        number("span-start", &C::span_start, "where the spans of span(limit,ramp) start, as a share of the limit", 0,
               1),
        number("span-loss", &C::span_loss,
               "factor of the loss that shortens spans: in each layer the mean of its heads' spans, in tokens", 0, 1e6),
        choice("span-cold-cache", &C::span_cold_cache,
               "keys that span(limit,ramp) sees before the text begins: none, or keys and values of zeros as published",
               "none|zeros"));
  }
};

// The fields of a stack of Transformer layers, as a base of the configurations of models. Marian's names where it has
// them. The layers are those of today's large models; docs/training.md shows the trainings that chose them.
struct StackConfig : RoutingConfig, IndexerConfig, SpanConfig {
  int64_t dim_emb = 512;
  int64_t transformer_heads = 8;
  int64_t transformer_heads_kv = 0;  // 0: transformer_heads
  int64_t transformer_dim_ffn = 2048;
  std::string transformer_norm = "pre";
  std::string transformer_norm_kind = "rms";
  std::string transformer_positions = "rotary";
  std::string transformer_ffn_activation = "swiglu";
  double transformer_dropout = 0.1;
  double transformer_dropout_attention = 0;
  double transformer_dropout_ffn = 0;
  double transformer_dropout_embedding = -1;  // -1: transformer_dropout
  int64_t max_positions = 1024;
  double norm_epsilon = 0;  // added to the variance in norms; 0: 1e-5 in layer norm, 1e-6 in RMS norm
  std::string transformer_biases = "all";
  std::string transformer_norm_qk = "none";
  int64_t transformer_dim_head = 0;      // 0: dim_emb / transformer_heads
  std::string embedding_scale = "root";  // of a decoder without an encoder
  std::string norm_gain = "plain";
  double attention_scalar = 0;                // 0: the width of an attention head
  double logit_softcap = 0;                   // 0: logits as they are
  std::vector<std::string> positions_layers;  // read by rotary_of() in layer_override.h

  // `depths` are the fields of the family's numbers of layers.
  template <class... Depths>
  static constexpr auto stack_fields(const Depths&... depths) {
    using C = StackConfig;
    return std::tuple_cat(
        std::tuple(
            number("dim-emb", &C::dim_emb, "width of the model", 1, 65536), depths...,
            number("transformer-heads", &C::transformer_heads, "attention heads; must divide --dim-emb", 1, 1024),
            number("transformer-heads-kv", &C::transformer_heads_kv,
                   "heads of keys and values, which divide --transformer-heads: that many query heads share one, and "
                   "the decoder's cache shrinks (0: one for each query head)",
                   0, 1024),
            number("transformer-dim-ffn", &C::transformer_dim_ffn, "width inside the feed-forward blocks", 1, 1 << 20),
            choice("transformer-norm", &C::transformer_norm,
                   "norm after each block's residual, before the block, or before the block and of its output too, "
                   "before the residual (sandwich: Gemma 2 and 3)",
                   "post|pre|sandwich"),
            choice("transformer-norm-kind", &C::transformer_norm_kind,
                   "layer norm, or division by the root mean square with a gain alone", "layer|rms"),
            field(
                "transformer-positions", &C::transformer_positions,
                "how the model knows positions: sinusoidal or learned (added to the embeddings), rotary (turns queries "
                "and keys of self-attention), shaw(R), transformer-xl or alibi (add to the scores of self-attention), "
                "e.g. learned+rotary, image (vectors of row, column and channel, added), or none"),
            choice("transformer-ffn-activation", &C::transformer_ffn_activation,
                   "between the two feed-forward layers; swish is x sigmoid(x); -tanh: the approximation of gelu by "
                   "tanh; geglu and swiglu gate one half of the first layer by the other",
                   "relu|gelu|gelu-tanh|swish|geglu|geglu-tanh|swiglu"),
            number("transformer-dropout", &C::transformer_dropout, "dropout on embeddings and residuals", 0, 0.99),
            number("transformer-dropout-attention", &C::transformer_dropout_attention, "dropout on attention weights",
                   0, 0.99),
            number("transformer-dropout-ffn", &C::transformer_dropout_ffn, "dropout inside the feed-forward blocks", 0,
                   0.99),
            number("transformer-dropout-embedding", &C::transformer_dropout_embedding,
                   "dropout on embeddings (-1: as --transformer-dropout)", -1, 0.99)),
        RoutingConfig::fields(), IndexerConfig::fields(), SpanConfig::fields());
  }
  static constexpr auto max_positions_field(std::string_view help) {
    return number("max-positions", &StackConfig::max_positions, help, 1, 1 << 24);
  }
  static constexpr auto norm_epsilon_field() {
    return number("norm-epsilon", &StackConfig::norm_epsilon,
                  "added to the variance in norms (0: 1e-5 in layer norm, 1e-6 in RMS norm)", 0, 1);
  }
  static constexpr auto transformer_biases_field() {
    return choice("transformer-biases", &StackConfig::transformer_biases,
                  "matrices with a bias: all, those of queries, keys and values alone (Qwen2), or none (Llama)",
                  "all|qkv|none");
  }
  static constexpr auto transformer_norm_qk_field() {
    return choice(
        "transformer-norm-qk", &StackConfig::transformer_norm_qk,
        "norm of each head's queries and keys in self-attention, before positions turn them: none, or rms with "
        "gains that the heads share (Qwen3)",
        "none|rms");
  }
  static constexpr auto transformer_dim_head_field() {
    return number("transformer-dim-head", &StackConfig::transformer_dim_head,
                  "width of an attention head (0: --dim-emb / --transformer-heads)", 0, 65536);
  }
  static constexpr auto embedding_scale_field() {
    return choice("embedding-scale", &StackConfig::embedding_scale,
                  "multiply the embeddings by the root of --dim-emb, or not (Llama, Qwen2)", "root|one");
  }
  static constexpr auto norm_gain_field() {
    return choice("norm-gain", &StackConfig::norm_gain,
                  "gains of norms are their weights w, or 1 + w (zero-centered: Gemma)", "plain|zero-centered");
  }
  static constexpr auto attention_scalar_field() {
    return number("attention-scalar", &StackConfig::attention_scalar,
                  "scores of self-attention are divided by the root of this number (Gemma's query_pre_attn_scalar; 0: "
                  "the width of an attention head)",
                  0, 1e6);
  }
  static constexpr auto logit_softcap_field() {
    return number("logit-softcap", &StackConfig::logit_softcap,
                  "each logit x of the output layer becomes c tanh(x / c), c this number (Gemma 2's "
                  "final_logit_softcapping; 0: logits as they are)",
                  0, 1e6);
  }
  static constexpr auto positions_layers_field() {
    return field("positions-layers", &StackConfig::positions_layers,
                 "exceptions to rotary positions: decoder.LAYERS=rotary(...) or decoder.LAYERS=none, e.g. "
                 "decoder.1-5=rotary(10000), layers from 1");
  }
};

// The input of a model. Positions "image" are for images.
enum class Media : uint8_t { kText, kImages };

// Adds what is wrong with these fields, except for values out of their ranges.
void add_stack_problems(const StackConfig& config, Media media, Problems& problems);

double embedding_dropout(const StackConfig& config);

// The width of an attention head.
int64_t head_dim_of(const StackConfig& config);

// The heads of an indexer in a model of `heads` heads.
int64_t index_heads_of(const IndexerConfig& config, int64_t heads);

// Whether the feed-forward blocks are gated: their first matrix has then 2 transformer_dim_ffn rows.
bool has_gated_feed_forward(const StackConfig& config);

// Whether the model has a table of max_positions vectors, beyond which it reads no token.
bool has_learned_positions(const StackConfig& config);

// The longest text that the model takes and makes, in tokens without </s>, and no more than `limit`: learned positions
// end, and one of them is </s>'s.
int64_t longest_text(const StackConfig& config, int64_t limit);

}  // namespace fovea
