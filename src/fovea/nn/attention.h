#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "fovea/nn/adaptive_span.h"
#include "fovea/nn/clause_attention.h"
#include "fovea/nn/forward_context.h"
#include "fovea/nn/head_norm.h"
#include "fovea/nn/indexer.h"
#include "fovea/nn/layers.h"
#include "fovea/nn/query_factors.h"
#include "fovea/nn/relative_positions.h"
#include "fovea/nn/routing.h"
#include "fovea/ops/attention.h"
#include "fovea/spec/attention_spec.h"
#include "fovea/spec/positions.h"

// One attention of a layer: projections, mechanism, output projection. The model has width M and H heads of width D,
// where M = H D unless D is given; keys and values have K heads.
namespace fovea::nn {

// The place of an attention in a model; fixed when the model is built.
struct AttentionPlace {
  int64_t width = 0, heads = 0;
  int64_t heads_kv = 0;    // of k and v, a divisor of heads; 0: heads
  int64_t head_width = 0;  // 0: width / heads
  AttentionKind kind = AttentionKind::kSelf;
  int64_t layer = 0;  // unlike any other attention's of the model: random(k) draws from (seed, layer, head)
  int64_t seed = 0;
  bool has_qkv_bias = true, has_out_bias = true;
  std::optional<RotaryAngles> rotary = {};       // self-attention: q and k turn by their positions
  std::optional<BlockNorm::Shape> qk_norm = {};  // self-attention: q and k of each head have it before that turn
  double query_factor = 1;                       // self-attention: q is multiplied by it, behind that norm
  RelativeSchemes relative = RelativeSchemes();  // self-attention
  RoutingConfig routing = {};                    // of routed heads
  IndexerConfig indexer = {};                    // of dsa
  SpanScheme spans = {};                         // of heads with an adaptive span

  int64_t key_heads() const { return heads_kv == 0 ? heads : heads_kv; }             // K
  int64_t head_dim() const { return head_width == 0 ? width / heads : head_width; }  // D
  int64_t inner() const { return heads * head_dim(); }                               // H D
};

// A mechanism's canonical text in both phases.
struct Mechanism {
  LayerSpec training, evaluation;
};

// q, k and v of one call: q [tokens, H, D], k and v [tokens, K, D].
struct Projected {
  at::Tensor q, k, v;
  at::Tensor unturned = {};        // q without its turn by positions, if terms by offset need it
  at::Tensor input = {};           // what q was projected from [T, M], if reads_input()
  at::Tensor memory_queries = {};  // ops::RoutingInputs
};

// Tokens [T, M] and their positions, [T] int64 on the CPU.
struct PlacedTokens {
  at::Tensor x, positions;
};

// The offsets of a packed batch's sequences among the queries and the keys: [B + 1] each, int64 on the CPU.
struct PackedOffsets {
  at::Tensor queries, keys;
};

// A pass is, for a mechanism A over q, k and v: out(gate(norm(A(q f, k, v) with the terms by offset), x)), f the
// factors of the queries of `scaled`, which the terms do not have. Parameters: qkv (self) or q and kv (cross), out:
// Linear; gate.weight [H D or H, M] for gate (spec/output_gate.h); scale...: those of QueryFactors; indexer...: those
// of Indexer; q_norm, k_norm [D]: BlockNorm; alpha [H] for entmax(learned), where alpha = 1 + sigmoid(a); sinks [H] for
// sink; head_norm...: those of HeadNorm; clause_mix...: those of ClauseMixture; relative...: those of
// RelativePositions; span...: those of AdaptiveSpans. Buffers: routing.{centroids, counts, means} of routed heads
// (routing.h).
class Attention : public torch::nn::Module {
 public:
  Attention(const AttentionPlace& place, const Mechanism& mechanism, const InitScope& scope);

  // x [T, M] -> q, k, v of self-attention; positions [T] on the CPU.
  Projected project(const at::Tensor& x, const at::Tensor& positions) const;
  // Like project() above, but keys and values have more tokens, as memory adds them: k and v [T_k, K, D].
  Projected project(const PlacedTokens& queries, const PlacedTokens& keys) const;
  // The two halves of cross-attention.
  at::Tensor project_query(const at::Tensor& x) const;
  // Whether a gate, a scale or weights by token need Projected::input.
  bool reads_input() const { return gate_ || mixture_.reads_input() || (factors_ && factors_->reads_input()); }
  Projected project_memory(const at::Tensor& memory) const;  // q undefined

  // A full pass over a packed batch -> [T, M].
  at::Tensor attend(const Projected& inputs, const PackedOffsets& offsets, const ops::DropoutOptions& dropout,
                    const ForwardContext& context) const;

  // For decoding, in evaluation: returns options with this attention's parameters filled in, but without offsets. They
  // are for a mechanism on [T, H, D].
  ops::AttentionOptions options() const;
  // Returns the inputs of routed heads; options().routing may point to them.
  ops::RoutingInputs routing() const;
  // The inputs of the terms by offset besides the queries, for sequences of up to `length` tokens.
  struct Tables {
    int64_t length = 0;
    RelativePositions::Tables relative = {};
    AdaptiveSpans::Tables spans = {};
  };
  bool has_terms() const { return relative_ || spans_; }
  Tables tables(int64_t length, const at::TensorOptions& options) const { return tables(length, options, false); }
  // Sets the terms by offset in `options` and returns the inputs that go with them. `options` must already have the
  // offsets of the queries and keys of all sequences.
  Projected with_terms(const Projected& inputs, const Tables& tables, ops::AttentionOptions& options) const;
  // q of `inputs`, times the factors of scaled queries, in evaluation. Options as for with_terms().
  at::Tensor scaled(const Projected& inputs, const ops::AttentionOptions& options) const {
    return scaled(inputs, options, scaled_.evaluation);
  }
  // Runs the mechanism on scaled queries, in evaluation: [T, H, D].
  at::Tensor mix(const Projected& inputs, const Tables& tables, const ops::AttentionOptions& options) const;
  // The projections before (qkv, or q of cross-attention) and after the mechanism, laid out for many small inputs.
  struct Prepacked {
    ops::PrepackedLayer in, out;
    std::optional<ops::PrepackedLayer> gate;
    int64_t heads, head_dim;
    at::Tensor project(const at::Tensor& x) const;  // [T, M] -> [T, H + 2 K, D], or [T, H, D] of cross-attention
    // [T, H, D], and the input of project() -> [T, M]
    at::Tensor output(const at::Tensor& mixed, const at::Tensor& x) const;
  };
  Prepacked prepacked(ops::PrepackedLayer::Format format) const;
  // Norms q and k and turns them by their positions as project() does, in place in `stacked` [T, H + 2 K, D], the
  // result of Prepacked::project(). Returns Projected::unturned.
  at::Tensor turn(const at::Tensor& stacked, const at::Tensor& positions) const;

  const AttentionPlace& place() const { return place_; }
  const Mechanism& mechanism() const { return mechanism_; }  // as a function of q, k and v
  // The k of dsa(k), 0 without; the indexer is there if one of them is not 0.
  struct Indexed {
    int64_t training = 0, evaluation = 0;
  };
  const Indexed& indexed() const { return indexed_; }
  const Indexer& indexer() const { return *indexer_; }
  // Throws an Error if `mechanism` needs parameters that were not trained.
  void require_parameters(const Mechanism& mechanism) const;
  void replace_mechanism(const Mechanism& mechanism);

 private:
  // [T, H, D], and Projected::input -> [T, M]
  at::Tensor output(const at::Tensor& heads, const at::Tensor& x, const ForwardContext& context) const;
  // The queries [T, any, D] of their projection, before they turn: with their norm and their factor.
  at::Tensor queries_of(const at::Tensor& projected) const;
  // The norm of q or k, [T, any, D]; x itself without one.
  static at::Tensor normed(const std::shared_ptr<BlockNorm>& norm, const at::Tensor& x);
  Tables tables(int64_t length, const at::TensorOptions& options, bool training) const;
  at::Tensor scaled(const Projected& inputs, const ops::AttentionOptions& options, const LayerSpec& mechanism) const;
  const LayerSpec& mechanism_of(const ForwardContext& context) const {
    return context.training ? mechanism_.training : mechanism_.evaluation;
  }
  // The full pass of a mechanism with clauses, with the norm applied -> [T, H, D].
  at::Tensor attend_to_clauses(const Projected& inputs, const PackedOffsets& offsets,
                               const ops::AttentionOptions& options, const ForwardContext& context) const;

  AttentionPlace place_;
  LayerSpec trained_;  // the mechanism whose parameters the layer has
  Mechanism mechanism_;
  AttentionLayerPointer training_, evaluation_;  // of the mechanism; null where it has clauses
  struct Gated {
    bool training = false, evaluation = false;
  };
  Gated gated_;       // whether the mechanism has a gate
  Indexed indexed_;   // the mechanism's dsa(k)
  Mechanism shown_;   // the mechanism as observers see it: with dsa(k)
  Mechanism scaled_;  // the mechanism with its stage `scaled`; empty without one
  std::shared_ptr<Linear> qkv_, q_, kv_, out_, gate_;
  std::shared_ptr<BlockNorm> q_norm_, k_norm_;  // null without norms of q and k
  std::shared_ptr<HeadNorm> head_norm_;         // null without a norm that has parameters
  std::shared_ptr<QueryFactors> factors_;       // null without scaled queries
  std::shared_ptr<Indexer> indexer_;            // null without dsa
  std::shared_ptr<RelativePositions> relative_;
  std::shared_ptr<AdaptiveSpans> spans_;  // null without a span
  std::shared_ptr<Routing> routing_;      // null without centroids
  ClauseMixture mixture_;
  at::Tensor alpha_, sinks_;
};

}  // namespace fovea::nn
