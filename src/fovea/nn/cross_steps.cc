#include "fovea/nn/cross_steps.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

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
    std::vector<int64_t> shape = x.sizes().vec();
    shape[0] = offsets.back();
    return at::zeros(shape, x.options()).index_copy_(0, places, x);
  };
  inputs.q = pad(inputs.q), inputs.input = pad(inputs.input);
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
    : sentences_(sentences) {
  TORCH_CHECK(std::ranges::is_sorted(sentences), "rows must be in ascending order of their sentences");
  for (const auto& layer : stack.layers()) {
    const Attention& attention = *layer->cross_attention;
    by_row_ |= uses_random(attention.mechanism().evaluation);
    layers_.push_back({&attention, attention.project_memory(other.encoded), attention.options(), nullptr});
    layers_.back().routing = RoutingSteps::of_cross(attention, layers_.back().keys, other.offsets, sentences);
  }
  append_places(other, 0);
  index_rows();
}

void CrossSteps::append_places(const OtherSide& other, int64_t first) {
  const auto* bounds = other.offsets.const_data_ptr<int64_t>();
  for (int64_t s = 0; s + 1 < other.offsets.numel(); ++s) {
    places_.push_back({first + bounds[s], bounds[s + 1] - bounds[s]});
  }
  used_ = first + other.encoded.size(0);
}

void CrossSteps::index_rows() {
  std::vector<int64_t> offsets = {0}, begins, lengths;
  for (size_t r = 0; r < sentences_.size(); ++r) {
    const int64_t s = sentences_[r];
    const bool first = by_row_ || r == 0 || s != sentences_[r - 1];
    if (first) {
      offsets.push_back(offsets.back());
      begins.push_back(places_[static_cast<size_t>(s)].begin);
      lengths.push_back(places_[static_cast<size_t>(s)].length);
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

at::Tensor CrossSteps::mix(size_t layer, const Queries& queries, std::span<const int64_t> lengths) const {
  const Layer& of = layers_[layer];
  const at::Tensor& q = queries.q;
  const Projected inputs = {q, of.keys.k.narrow(0, 0, used_), of.keys.v.narrow(0, 0, used_), {}, queries.input};
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

bool CrossSteps::can_add() const {
  return std::ranges::none_of(layers_, [](const Layer& layer) { return layer.routing != nullptr; });
}

void CrossSteps::add(const OtherSide& other) {
  TORCH_CHECK(can_add(), "routed heads take no more sentences");
  const int64_t count = other.encoded.size(0), room = layers_.front().keys.k.size(0);
  if (used_ + count > room) make_room(count);
  for (const Layer& layer : layers_) {
    const Projected added = layer.attention->project_memory(other.encoded);
    layer.keys.k.narrow(0, used_, count).copy_(added.k);
    layer.keys.v.narrow(0, used_, count).copy_(added.v);
  }
  const int64_t first = std::ssize(places_);
  append_places(other, used_);
  for (int64_t s = first; s < std::ssize(places_); ++s) sentences_.push_back(s);
  index_rows();
}

void CrossSteps::make_room(int64_t count) {
  std::vector<Place> from, to;
  int64_t live = 0;
  std::vector<int64_t> sentences;
  for (size_t r = 0; r < sentences_.size(); ++r) {
    if (r == 0 || sentences_[r] != sentences_[r - 1]) {
      from.push_back(places_[static_cast<size_t>(sentences_[r])]);
      to.push_back({live, from.back().length});
      live += from.back().length;
    }
    sentences.push_back(std::ssize(to) - 1);
  }
  const int64_t room = 2 * (live + count);
  for (Layer& layer : layers_) {
    const at::Tensor& k = layer.keys.k;
    const auto parts = at::empty({room, 2, k.size(1), k.size(2)}, k.options()).unbind(1);
    for (size_t s = 0; s < to.size(); ++s) {
      for (const auto& [grown, old] : {std::pair(parts[0], k), std::pair(parts[1], layer.keys.v)})
        grown.narrow(0, to[s].begin, to[s].length).copy_(old.narrow(0, from[s].begin, from[s].length));
    }
    layer.keys = {{}, parts[0], parts[1]};
  }
  places_ = std::move(to);
  sentences_ = std::move(sentences);
  used_ = live;
}

}  // namespace fovea::nn
