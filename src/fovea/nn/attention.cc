#include "fovea/nn/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/diff.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/call/checks.h"
#include "fovea/nn/attention_observer.h"
#include "fovea/nn/clause_attention.h"
#include "fovea/nn/query_factors.h"
#include "fovea/ops/attention_norm.h"
#include "fovea/ops/candidate_counts.h"
#include "fovea/ops/rotary.h"
#include "fovea/spec/attention_parameters.h"

namespace fovea::nn {
namespace {

// A [rows, M] matrix that stacks several [M, M] matrices. Each part gets the initial limit that it would have alone.
std::shared_ptr<Linear> stacked(const AttentionPlace& place, int64_t rows, const InitScope& scope) {
  const double limit = xavier_limit(place.width, place.width, std::sqrt(0.5));
  return std::make_shared<Linear>(Linear::Shape{place.width, rows, limit, place.has_qkv_bias}, scope);
}

// The length of the longest of the sequences that begin and end at `offsets` [B + 1].
int64_t longest(const at::Tensor& offsets) {
  const auto* bounds = offsets.const_data_ptr<int64_t>();
  int64_t most = 0;
  for (int64_t b = 0; b + 1 < offsets.numel(); ++b) most = std::max(most, bounds[b + 1] - bounds[b]);
  return most;
}

// Throws an Error if the place cannot have the mechanism.
void check_place(const AttentionPlace& place, const LayerSpec& mechanism) {
  const bool clauses = has_clauses(mechanism), routes = has_routes(mechanism);
  if (place.key_heads() < place.heads && (routes || clauses))
    throw Error(cat("--transformer-heads-kv ", place.heads_kv, ": ", routes ? "routed heads" : "heads with clauses",
                    " have keys of their own in '", print(mechanism), "'; leave the option out"));
  if (clauses && mechanism.size() > 1 && place.relative.any())
    throw Error(
        cat("--transformer-positions: positions that act on scores do not go with head groups of which some have ",
            "clauses ('", print(mechanism), "'); use one mechanism for all heads"));
  if (indexed_keys(mechanism) > 0 && place.relative.any())
    throw Error(cat("--transformer-positions: positions that act on scores do not go with '", print(mechanism),
                    "', whose indexer learns from scores without them; use rotary, or positions on the embeddings"));
  if (routes && place.relative.transformer_xl)
    throw Error(cat("--transformer-positions transformer-xl: its biases would change the clusters of '",
                    print(mechanism), "'; use shaw(R), alibi or rotary with routed heads"));
}

// The mechanism if it scales queries, or an empty one.
LayerSpec if_scaled(const LayerSpec& mechanism) {
  const bool is_scaled =
      std::ranges::any_of(mechanism, [](const HeadGroup& group) { return group.spec.scale.has_value(); });
  return is_scaled ? mechanism : LayerSpec{};
}

// A number that each head learns for itself, and its name in the refusal of a mechanism.
struct HeadParameter {
  bool AttentionParameters::*needs;
  std::string_view name;
};
constexpr std::array kHeadParameters = {
    HeadParameter{&AttentionParameters::alpha, "a learned alpha"},
    HeadParameter{&AttentionParameters::sinks, "learned sinks"},
    HeadParameter{&AttentionParameters::scale_by_head, "the weights of scaled"},
    HeadParameter{&AttentionParameters::scale_by_input, "the weights of scaled beside entmax"}};

// Names a parameter that some heads of `mechanism` need and did not learn in `trained`; empty if there is none. Both
// mechanisms are resolved.
std::string unlearned(const LayerSpec& mechanism, const LayerSpec& trained) {
  const AttentionParameters learned = parameters_of(trained);
  int64_t end = 0;
  for (const HeadGroup& group : mechanism) {
    const AttentionParameters needs = parameters_of({group});
    const int64_t begin = end;
    end += group.num_heads;
    int64_t had_end = 0;
    for (const HeadGroup& had : trained) {
      const int64_t had_begin = had_end;
      had_end += had.num_heads;
      const int64_t first = std::max(begin, had_begin), last = std::min(end, had_end);
      const AttentionParameters own = parameters_of({had});
      for (const auto& [part, name] : kHeadParameters) {
        if (first >= last || !(needs.*part) || own.*part) continue;
        if (!(learned.*part)) return std::string(name);
        return first + 1 == last ? cat(name, " of head ", last) : cat(name, " of heads ", first + 1, " to ", last);
      }
    }
  }
  return "";
}

// The outputs of heads [T, H, D] times the sigmoid of the gate's products, [T, H D] or [T, H].
at::Tensor gated_heads(const at::Tensor& heads, const at::Tensor& products) {
  return heads * products.sigmoid().view({heads.size(0), heads.size(1), -1}).to(heads.scalar_type());
}

}  // namespace

Attention::Attention(const AttentionPlace& place, const Mechanism& mechanism, const InitScope& scope)
    : place_(place), trained_(resolve(mechanism.training, place.heads)) {
  check_place(place, mechanism.training);
  const int64_t width = place.width, inner = place.inner(), of_keys = 2 * place.key_heads() * place.head_dim();
  if (place.kind == AttentionKind::kCross) {
    q_ = register_module("q", stacked(place, inner, scope / "q"));
    kv_ = register_module("kv", stacked(place, of_keys, scope / "kv"));
  } else {
    qkv_ = register_module("qkv", stacked(place, inner + of_keys, scope / "qkv"));
  }
  const Linear::Shape output = {inner, width, xavier_limit(inner, width), place.has_out_bias};
  out_ = register_module("out", std::make_shared<Linear>(output, scope / "out"));
  if (const std::optional<OutputGate>& gate = mechanism.training.front().spec.gate) {
    const int64_t rows = gate->per == OutputGate::Per::kHead ? place.heads : inner;
    const Linear::Shape shape = {width, rows, xavier_limit(width, rows), false};
    gate_ = register_module("gate", std::make_shared<Linear>(shape, scope / "gate"));
  }
  const AttentionParameters needs = parameters_of(mechanism.training);
  if (needs.scale_by_head || needs.scale_by_input) {
    const QueryFactors::Shape shape = {place.heads, width};
    factors_ = register_module("scale", std::make_shared<QueryFactors>(needs, shape, scope / "scale"));
  }
  if (place.qk_norm) {
    q_norm_ = register_module("q_norm", std::make_shared<BlockNorm>(*place.qk_norm, scope / "q_norm"));
    k_norm_ = register_module("k_norm", std::make_shared<BlockNorm>(*place.qk_norm, scope / "k_norm"));
  }
  if (needs.alpha) alpha_ = register_parameter("alpha", constant_tensor({place.heads}, 0, scope));
  if (needs.sinks) sinks_ = register_parameter("sinks", constant_tensor({place.heads}, 0, scope));
  // resolve() makes sure that all head groups share the norm.
  if (needs.gain || needs.gate || needs.bias) {
    const HeadNorm::Width widths = {inner, place.head_dim()};
    head_norm_ =
        register_module("head_norm", std::make_shared<HeadNorm>(mechanism.training.front().spec.norm, widths, scope));
  }
  if (place.relative.any()) {
    const RelativeShape shape = {place.heads, place.head_dim(), place.kind == AttentionKind::kCausal};
    relative_ =
        register_module("relative", std::make_shared<RelativePositions>(place.relative, shape, scope / "relative"));
  }
  if (longest_span(mechanism.training) > 0)
    spans_ =
        register_module("span", std::make_shared<AdaptiveSpans>(without_layer_stages(mechanism.training), place.spans));
  mixture_ = ClauseMixture(*this, needs, {place.heads, width}, scope);
  if (indexed_keys(mechanism.training) > 0) {
    const Indexer::Shape shape = {place.heads, place.key_heads(), place.head_dim()};
    indexer_ = register_module("indexer", std::make_shared<Indexer>(shape, place.indexer, scope / "indexer"));
  }
  if (!clusters_of_heads(mechanism.training).empty())
    routing_ = register_module(
        "routing", std::make_shared<Routing>(mechanism.training, place.head_dim(), place.routing, scope / "routing"));
  replace_mechanism(mechanism);
}

void Attention::replace_mechanism(const Mechanism& given) {
  const Mechanism mechanism{without_layer_stages(given.training), without_layer_stages(given.evaluation)};
  mechanism_ = mechanism;
  indexed_ = {indexed_keys(given.training), indexed_keys(given.evaluation)};
  shown_ = {indexed_.training > 0 ? given.training : mechanism.training,
            indexed_.evaluation > 0 ? given.evaluation : mechanism.evaluation};
  scaled_ = {if_scaled(given.training), if_scaled(given.evaluation)};
  gated_ = {given.training.front().spec.gate.has_value(), given.evaluation.front().spec.gate.has_value()};
  const auto layer_of = [&](const LayerSpec& spec) {
    return has_clauses(spec) ? nullptr : resolved_layer(spec, place_.heads);
  };
  training_ = layer_of(mechanism.training), evaluation_ = layer_of(mechanism.evaluation);
}

void Attention::require_parameters(const Mechanism& mechanism) const {
  const AttentionParameters needs = parameters_of(mechanism.evaluation);
  std::string missing = HeadNorm::missing(head_norm_.get(), needs);
  if (const std::string of_heads = unlearned(resolve(mechanism.evaluation, place_.heads), trained_); !of_heads.empty())
    missing = of_heads;
  if (const std::optional<OutputGate>& gate = mechanism.evaluation.front().spec.gate) {
    const int64_t rows = gate->per == OutputGate::Per::kHead ? place_.heads : place_.inner();
    if (!gate_ || gate_->weight.size(0) != rows)
      missing = cat("the weights of ", gate->per == OutputGate::Per::kHead ? "gate(head)" : "gate");
  }
  if (const std::string of_mixture = mixture_.missing(needs); !of_mixture.empty()) missing = of_mixture;
  if (indexed_keys(mechanism.evaluation) > 0 && !indexer_) missing = "a learned indexer";
  const std::vector<int64_t> clusters = clusters_of_heads(mechanism.evaluation);
  if (!clusters.empty() && (!routing_ || routing_->clusters() != clusters)) missing = "centroids of its clusters";
  if (longest_span(mechanism.evaluation) > 0 && (!spans_ || !spans_->fits(mechanism.evaluation)))
    missing =
        spans_
            ? "learned spans of these heads and ramps, of these limits or longer ones (a limit may only be shortened)"
            : "learned spans of these heads, limits and ramps";
  if (!missing.empty()) {
    throw Error(cat("--attention ", print(mechanism.evaluation), ": it needs ", missing,
                    ", which this model (trained with ", print(trained_),
                    ") does not have; use a mechanism without it, or train one with it"));
  }
}

at::Tensor Attention::normed(const std::shared_ptr<BlockNorm>& norm, const at::Tensor& x) {
  return norm ? (*norm)(x.reshape({-1, x.size(-1)})).view(x.sizes()) : x;
}

at::Tensor Attention::queries_of(const at::Tensor& projected) const {
  const at::Tensor q = normed(q_norm_, projected);
  return place_.query_factor == 1 ? q : q * place_.query_factor;
}

Projected Attention::project(const at::Tensor& x, const at::Tensor& positions) const {
  // One product for q, k and v, whose backward pass is a single stack.
  const at::Tensor product = (*qkv_)(x), input = reads_input() ? x : at::Tensor();
  const int64_t head_dim = place_.head_dim(), keys = place_.key_heads();
  const bool changes_q = q_norm_ || place_.query_factor != 1;
  if (place_.rotary || changes_q || keys < place_.heads) {
    const at::Tensor heads = product.view({x.size(0), place_.heads + 2 * keys, head_dim});
    if (!place_.rotary || changes_q) {
      const auto parts = heads.split_with_sizes({place_.heads, keys, keys}, 1);
      const at::Tensor q = queries_of(parts[0]), k = normed(k_norm_, parts[1]);
      const at::Tensor unturned = has_terms() ? q : at::Tensor();
      if (!place_.rotary) return {q, k, parts[2], unturned, input};
      return {ops::rotary(q, positions, *place_.rotary), ops::rotary(k, positions, *place_.rotary), parts[2], unturned,
              input};
    }
    // The rotation below may work in place, so the unturned queries are copied first.
    const at::Tensor unturned = has_terms() ? heads.narrow(1, 0, place_.heads).clone() : at::Tensor();
    const ops::RotaryHeads turned = ops::rotary_heads(heads, place_.heads, positions, *place_.rotary);
    return {turned.q, turned.k, turned.v, unturned, input};
  }
  const auto parts = product.view({x.size(0), 3, place_.heads, head_dim}).unbind(1);
  return {parts[0], parts[1], parts[2], has_terms() ? parts[0] : at::Tensor(), input};
}

Projected Attention::project(const PlacedTokens& queries, const PlacedTokens& keys) const {
  const int64_t head_dim = place_.head_dim(), of_keys = place_.key_heads();
  const auto heads = [&](const PlacedTokens& tokens, int64_t first, int64_t count) {
    const auto rows = [&](const at::Tensor& all) {
      return all.defined() ? all.narrow(0, first * head_dim, count * head_dim) : all;
    };
    const at::Tensor product = ops::linear(tokens.x, rows(qkv_->weight), rows(qkv_->bias));
    return product.view({tokens.x.size(0), count, head_dim});
  };
  const at::Tensor q = queries_of(heads(queries, 0, place_.heads));
  const auto halves = heads(keys, place_.heads, 2 * of_keys).view({-1, 2, of_keys, head_dim}).unbind(1);
  const at::Tensor k = normed(k_norm_, halves[0]), unturned = has_terms() ? q : at::Tensor();
  // Routed heads whose keys are the queries read the queries' projection of the keys' tokens too.
  std::vector<at::Tensor> routed;
  int64_t first = 0;
  for (const HeadGroup& group : mechanism_.training) {
    const Routed* route = group.spec.route();
    if (route && route->has_centroids() && shares_keys(*route, place_.kind, place_.routing.routing_keys))
      routed.push_back(queries_of(heads(keys, first, group.num_heads)));
    first += group.num_heads;
  }
  const at::Tensor all = routed.empty() ? at::Tensor() : routed.size() == 1 ? routed[0] : at::cat(routed, 1);
  const at::Tensor input = reads_input() ? queries.x : at::Tensor();
  if (!place_.rotary) return {q, k, halves[1], unturned, input, all};
  const auto turned = [&](const at::Tensor& x, const at::Tensor& positions) {
    return x.defined() ? ops::rotary(x, positions, *place_.rotary) : x;
  };
  return {turned(q, queries.positions), turned(k, keys.positions), halves[1], unturned, input,
          turned(all, keys.positions)};
}

at::Tensor Attention::turn(const at::Tensor& stacked, const at::Tensor& positions) const {
  const at::Tensor q = stacked.narrow(1, 0, place_.heads), k = stacked.narrow(1, place_.heads, place_.key_heads());
  if (q_norm_ || place_.query_factor != 1) q.copy_(queries_of(q));
  if (k_norm_) k.copy_(normed(k_norm_, k));
  if (!place_.rotary) return has_terms() ? q : at::Tensor();
  const at::Tensor unturned = has_terms() ? q.clone() : at::Tensor();
  const ops::RotaryHeads turned = ops::rotary_heads(stacked, place_.heads, positions, *place_.rotary);
  if (turned.q.is_alias_of(stacked)) return unturned;  // in place where a kernel computes
  q.copy_(turned.q);
  k.copy_(turned.k);
  return unturned;
}

at::Tensor Attention::project_query(const at::Tensor& x) const {
  return (*q_)(x).view({x.size(0), place_.heads, place_.head_dim()});
}

Projected Attention::project_memory(const at::Tensor& memory) const {
  const auto parts = (*kv_)(memory).view({memory.size(0), 2, place_.key_heads(), place_.head_dim()}).unbind(1);
  return {{}, parts[0], parts[1]};
}

ops::AttentionOptions Attention::options() const {
  ops::AttentionOptions options;
  options.kind = place_.kind;
  options.seed = place_.seed;
  options.layer = place_.layer;
  options.enable_gqa = place_.key_heads() < place_.heads;
  const AttentionParameters needs = parameters_of(mechanism_.training);
  // bfloat16 would keep two digits of a learned alpha, so it is computed in float32 at least.
  if (needs.alpha) {
    options.alpha = (alpha_.to(alpha_.dtype() == at::kDouble ? at::kDouble : at::kFloat).sigmoid() + 1)
                        .clamp_min(kernels::kLeastAlpha);
  }
  if (needs.sinks) options.sinks = sinks_;
  if (head_norm_) head_norm_->fill(options, needs);
  return options;
}

Attention::Tables Attention::tables(int64_t length, const at::TensorOptions& options, bool training) const {
  Tables tables;
  tables.length = length;
  if (relative_) tables.relative = relative_->tables(length, options);
  if (spans_) tables.spans = spans_->tables(training ? mechanism_.training : mechanism_.evaluation);
  return tables;
}

Projected Attention::with_terms(const Projected& inputs, const Tables& tables, ops::AttentionOptions& options) const {
  if (tables.spans.by_head.defined()) {
    options.offsets = spans_->terms(inputs.unturned, tables.spans);
    if (!place_.spans.has_cold_zeros()) return inputs;
    const bool packed = options.k_offsets.has_value();
    const WarmKeys warm = {inputs.k, inputs.v,
                           packed ? options.k_offsets->narrow(0, 0, options.k_offsets->numel() - 1) : *options.k_begins,
                           packed ? options.k_offsets->diff() : *options.k_lengths, options.k_tokens};
    const ColdKeys cold = with_cold_keys(warm, *options.q_offsets, -tables.spans.by_head_first);
    options.k_tokens.reset();
    if (packed) {
      options.k_offsets = at::cat({cold.begins, cold.begins.narrow(0, -1, 1) + cold.lengths.narrow(0, -1, 1)});
    } else {
      options.k_begins = cold.begins;
      options.k_lengths = cold.lengths;
    }
    return {inputs.q, cold.k, cold.v, {}, inputs.input};
  }
  if (!relative_) return inputs;
  const double scale = 1 / std::sqrt(static_cast<double>(inputs.q.size(-1)));
  options.offsets = relative_->terms(inputs.unturned, tables.relative, scale);
  return {relative_->content(inputs.q), inputs.k, inputs.v, {}, inputs.input};
}

at::Tensor Attention::scaled(const Projected& inputs, const ops::AttentionOptions& options,
                             const LayerSpec& mechanism) const {
  if (mechanism.empty()) return inputs.q;
  const at::Tensor counts = ops::candidate_counts(mechanism, inputs.q, inputs.k, options).to(inputs.q.device());
  return (inputs.q * (*factors_)(mechanism, counts, inputs.input).unsqueeze(-1)).to(inputs.q.scalar_type());
}

ops::RoutingInputs Attention::routing() const {
  ops::RoutingInputs inputs = routing_inputs(place_.routing);
  if (routing_) inputs.centroids = routing_->centroids();
  return inputs;
}

at::Tensor Attention::attend(const Projected& projected, const PackedOffsets& offsets,
                             const ops::DropoutOptions& dropout, const ForwardContext& context) const {
  ops::AttentionOptions call = options();
  call.q_offsets = offsets.queries, call.k_offsets = offsets.keys;
  call.dropout = dropout.rate, call.dropout_seed = dropout.seed;
  const Tables terms = has_terms() ? tables(longest(offsets.keys), projected.q.options(), context.training) : Tables();
  Projected inputs = with_terms(projected, terms, call);
  inputs.q = scaled(inputs, call, context.training ? scaled_.training : scaled_.evaluation);
  if (has_clauses(mechanism_of(context)))
    return output(attend_to_clauses(inputs, offsets, call, context), projected.input, context);

  const AttentionObserver* observer = AttentionObserver::current();
  RoutedPass routed({place_.routing, routing_, projected.memory_queries}, context, observer != nullptr);
  call.routing = &routed.inputs();
  if (const int64_t count = context.training ? indexed_.training : indexed_.evaluation; count > 0) {
    const Indexer::Pairs pairs = {
        inputs.q, inputs.k, {place_.kind == AttentionKind::kCausal, offsets.queries, offsets.keys}};
    call.pairs = {indexer_->choose(pairs, count), 1};
    indexer_->report(pairs, count, context);
  }
  const AttentionLayerPointer& layer = spans_ ? terms.spans.layer : context.training ? training_ : evaluation_;
  const at::Tensor mixed = ops::attention(inputs.q, inputs.k, inputs.v, layer, call);

  if (observer != nullptr) {
    call.routing = &routed.known();
    auto lengths = spans_ ? spans_->lengths(mechanism_of(context)) : std::vector<std::optional<double>>();
    const LayerSpec& spec = spans_ ? terms.spans.mechanism : context.training ? shown_.training : shown_.evaluation;
    observer->show({place_, inputs.q, inputs.k, spec, layer, call, routed.rows(), {}, nullptr, std::move(lengths)});
  }
  if (spans_ && context.extras != nullptr) spans_->report(context.training, *context.extras);
  routed.report(context);
  return output(mixed, projected.input, context);
}

at::Tensor Attention::attend_to_clauses(const Projected& inputs, const PackedOffsets& offsets,
                                        const ops::AttentionOptions& options, const ForwardContext& context) const {
  const LayerSpec& spec = mechanism_of(context);
  const std::vector<ClauseHeads> heads = clause_heads(spec);
  const ClauseInputs parts = {
      inputs.q, inputs.k, inputs.v, offsets.queries, mixture_.probability(inputs.input), context.clauses.get()};
  if (const AttentionObserver* observer = AttentionObserver::current(); observer != nullptr) {
    const at::Tensor weights = clause_weights(heads, parts, options);
    observer->show({place_, inputs.q, inputs.k, spec, nullptr, options, {}, weights, context.clauses.get()});
  }
  return ops::norm_over_heads(spec.front().spec.norm, nn::attend_to_clauses(heads, parts, options),
                              {options.gain, options.gate, options.bias});
}

at::Tensor Attention::mix(const Projected& inputs, const Tables& tables, const ops::AttentionOptions& options) const {
  const at::Tensor q = scaled(inputs, options);
  return ops::attention(q, inputs.k, inputs.v, spans_ ? tables.spans.layer : evaluation_, options);
}

at::Tensor Attention::output(const at::Tensor& heads, const at::Tensor& x, const ForwardContext& context) const {
  const bool is_gated = context.training ? gated_.training : gated_.evaluation;
  const at::Tensor z = is_gated ? gated_heads(heads, (*gate_)(x)) : heads;
  return (*out_)(z.reshape({-1, place_.inner()}));
}

Attention::Prepacked Attention::prepacked(ops::PrepackedLayer::Format format) const {
  return {(qkv_ ? qkv_ : q_)->prepacked(format), out_->prepacked(format),
          gated_.evaluation ? std::optional(gate_->prepacked(format)) : std::nullopt, place_.heads, place_.head_dim()};
}

at::Tensor Attention::Prepacked::project(const at::Tensor& x) const {
  const at::Tensor projected = in(x);
  return projected.view({x.size(0), projected.size(1) / head_dim, head_dim});
}

at::Tensor Attention::Prepacked::output(const at::Tensor& mixed, const at::Tensor& x) const {
  const at::Tensor z = gate ? gated_heads(mixed, (*gate)(x)) : mixed;
  return out(z.reshape({z.size(0), z.size(1) * z.size(2)}));
}

}  // namespace fovea::nn
