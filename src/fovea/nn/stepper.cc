#include "fovea/nn/stepper.h"

#include <ATen/ops/arange.h>
#include <c10/core/InferenceMode.h>

namespace fovea::nn {
namespace {

StepCache empty_cache(const Stepper::Parts& parts, StepCache::Rows kind, int64_t rows) {
  const AttentionPlace& place = parts.stack.layers().front()->self_attention->place();
  return {kind,
          rows,
          {parts.stack.place().depth, place.heads, place.width / place.heads},
          parts.embedding.weight().options()};
}

}  // namespace

Stepper::Stepper(const Parts& parts, StepCache::Rows kind, int64_t rows, std::optional<CrossSteps> cross)
    : stack_(parts.stack),
      embedding_(parts.embedding),
      packed_(parts.layers),
      cache_(empty_cache(parts, kind, rows)),
      cross_(std::move(cross)) {
  const c10::InferenceMode guard;
  TORCH_CHECK(packed_ != nullptr && packed_->layers.size() == stack_.layers().size(),
              "the packed layers must be those of this model");
  for (const auto& layer : stack_.layers()) {
    options_.push_back(layer->self_attention->options());
    routing_.push_back(RoutingSteps::of_self(*layer->self_attention, rows));
  }
}

at::Tensor Stepper::step(const at::Tensor& tokens) {
  const c10::InferenceMode guard;
  return run(tokens, at::arange(cache_.rows() + 1, at::kLong));
}

at::Tensor Stepper::prefill(const at::Tensor& tokens, const at::Tensor& offsets) {
  const c10::InferenceMode guard;
  TORCH_CHECK(!cross_, "prefill is for stacks without cross-attention");
  const at::Tensor last = offsets.narrow(0, 1, cache_.rows()) - 1;
  return run(tokens, offsets).index_select(0, last.to(tokens.device()));
}

at::Tensor Stepper::run(const at::Tensor& tokens, const at::Tensor& offsets) {
  const TokenPositions positions = token_positions(offsets, cache_.lengths());
  const at::Tensor embedded = embedding_(tokens, positions, {});  // may throw: only then do the rows grow
  cache_.append(offsets);
  const StepCache::Keys keys = cache_.key_places();
  for (ops::AttentionOptions& options : options_) {
    options.q_offsets = offsets;
    options.k_begins = keys.begins;
    options.k_lengths = keys.lengths;
    options.k_tokens = keys.tokens;
  }
  return stack_.run(
      embedded, {},
      {.self_attention = [&](size_t i, const at::Tensor& x) { return self_attention(i, x, positions.position); },
       .cross_attention = [&](size_t i, const at::Tensor& x) { return cross_attention(i, x); },
       .feed_forward = [&](size_t i, const at::Tensor& x) { return packed_->layers[i].feed_forward(x); }});
}

at::Tensor Stepper::self_attention(size_t layer, const at::Tensor& x, const at::Tensor& positions) {
  const Attention::Packed& packed = packed_->layers[layer].self_attention;
  const Attention& attention = *stack_.layers()[layer]->self_attention;
  const at::Tensor stacked = packed.project(x);
  attention.turn(stacked, positions);  // before the cache, whose keys keep their positions
  const std::shared_ptr<RoutingSteps>& routing = routing_[layer];
  if (routing) routing->share_keys(stacked);
  cache_.write(layer, stacked);
  const Projected inputs = {stacked.select(1, 0), cache_.keys(layer), cache_.values(layer)};
  if (!routing) return packed.output(attention.mix(inputs, options_[layer]));
  ops::AttentionOptions options = options_[layer];
  const RoutingSteps::Cache cache{inputs.k, inputs.v, *options.k_begins, options.k_tokens};
  ops::RoutingInputs routed;
  routed.outputs = routing->mix(inputs.q, *options.q_offsets, &cache);
  options.routing = &routed;
  return packed.output(attention.mix(inputs, options));
}

at::Tensor Stepper::cross_attention(size_t layer, const at::Tensor& x) const {
  const Attention::Packed& packed = *packed_->layers[layer].cross_attention;
  return packed.output(cross_->mix(layer, packed.project(x).select(1, 0), cache_.lengths()));
}

void Stepper::reorder(const std::vector<int64_t>& parents) {
  const c10::InferenceMode guard;
  if (cross_) cross_->inherit(parents);
  for (const auto& routing : routing_) {
    if (routing) routing->inherit(parents);
  }
  cache_.inherit(parents);
}

}  // namespace fovea::nn
