#include "fovea/nn/cross_steps.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "fovea/nn/index_tensor.h"

namespace fovea::nn {
namespace {

// random(k) draws by the query's position: each token stands behind as many empty queries as came before it.
at::Tensor mix_at_positions(const Attention& attention, Projected inputs, ops::AttentionOptions options,
                            std::span<const int64_t> lengths) {
  std::vector<int64_t> offsets = {0}, newest;
  for (const int64_t length : lengths) {
    offsets.push_back(offsets.back() + length);
    newest.push_back(offsets.back() - 1);
  }
  const at::Tensor places = index_tensor(newest).to(inputs.q.device());
  const auto pad = [&](const at::Tensor& x) {
    return at::zeros({offsets.back(), x.size(1), x.size(2)}, x.options()).index_copy_(0, places, x);
  };
  inputs.q = pad(inputs.q);
  ops::RoutingInputs routed;
  if (options.routing != nullptr) {
    for (const at::Tensor& output : options.routing->outputs) routed.outputs.push_back(pad(output));
    options.routing = &routed;
  }
  options.q_offsets = index_tensor(offsets);
  return attention.mix(inputs, {}, options).index_select(0, places);
}

}  // namespace

CrossSteps::CrossSteps(const Stack& stack, const OtherSide& other, const std::vector<int64_t>& sentences)
    : sentences_(sentences), offsets_(other.offsets) {
  TORCH_CHECK(std::ranges::is_sorted(sentences), "rows must be in ascending order of their sentences");
  for (const auto& layer : stack.layers()) {
    const Attention& attention = *layer->cross_attention;
    by_row_ |= uses_random(attention.mechanism().evaluation);
    layers_.push_back({&attention, attention.project_memory(other.encoded), attention.options(), nullptr});
    layers_.back().routing = RoutingSteps::of_cross(attention, layers_.back().keys, other.offsets, sentences);
  }
  index_rows();
}

void CrossSteps::index_rows() {
  const auto* bounds = offsets_.const_data_ptr<int64_t>();
  std::vector<int64_t> offsets = {0}, begins, lengths;
  for (size_t r = 0; r < sentences_.size(); ++r) {
    const int64_t s = sentences_[r];
    const bool first = by_row_ || r == 0 || s != sentences_[r - 1];
    if (first) {
      offsets.push_back(offsets.back());
      begins.push_back(bounds[s]);
      lengths.push_back(bounds[s + 1] - bounds[s]);
    }
    ++offsets.back();
  }
  const at::Tensor q_offsets = index_tensor(offsets), k_begins = index_tensor(begins),
                   k_lengths = index_tensor(lengths);
  for (Layer& layer : layers_) {
    layer.options.q_offsets = q_offsets;
    layer.options.k_begins = k_begins;
    layer.options.k_lengths = k_lengths;
  }
}

at::Tensor CrossSteps::mix(size_t layer, const at::Tensor& q, std::span<const int64_t> lengths) const {
  const Layer& of = layers_[layer];
  const Projected inputs = {q, of.keys.k, of.keys.v};
  ops::AttentionOptions options = of.options;
  ops::RoutingInputs routed;
  if (of.routing) {
    routed.outputs = of.routing->mix(q, at::arange(q.size(0) + 1, at::kLong), nullptr);
    options.routing = &routed;
  }
  return by_row_ ? mix_at_positions(*of.attention, inputs, options, lengths) : of.attention->mix(inputs, {}, options);
}

void CrossSteps::inherit(std::span<const int64_t> parents) {
  std::vector<int64_t> sentences;
  for (const int64_t parent : parents) sentences.push_back(sentences_.at(static_cast<size_t>(parent)));
  TORCH_CHECK(std::ranges::is_sorted(sentences), "rows must stay in ascending order of their sentences");
  for (const Layer& layer : layers_) {
    if (layer.routing) layer.routing->inherit(parents);
  }
  if (sentences == sentences_) return;
  sentences_ = std::move(sentences);
  index_rows();
}

}  // namespace fovea::nn
