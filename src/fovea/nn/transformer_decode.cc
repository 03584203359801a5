#include "fovea/nn/transformer_parts.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "fovea/nn/decoder_cache.h"
#include "fovea/nn/index_tensor.h"

// Incremental decoding: rows are lists of the cache's tokens, which reordering rewrites; keys and values stay in place.
namespace fovea::nn {

struct TransformerImpl::PackedDecoder {
  struct Layer {
    Attention::Packed self_attention, cross_attention;
    FeedForward::Packed feed_forward;
  };
  std::vector<Layer> layers;
};

struct TransformerImpl::DecoderState {
  struct Layer {
    Projected memory;  // keys and values of all sentences, [T_src, H, D]
    ops::AttentionOptions self, cross;
  };

  explicit DecoderState(const KeyValueCache& empty) : cache(empty) {}

  // After the rows changed: offsets of the queries, and the key ranges of the cross-attention.
  void index_rows() {
    const auto rows = static_cast<int64_t>(sentences.size());
    row_offsets = at::arange(rows + 1, at::kLong);
    const auto* bounds = memory_offsets.const_data_ptr<int64_t>();
    std::vector<int64_t> offsets = {0}, begins, lengths;
    for (size_t r = 0; r < sentences.size(); ++r) {
      const int64_t s = sentences[r];
      const bool first = cross_by_row || r == 0 || s != sentences[r - 1];
      if (first) {
        offsets.push_back(offsets.back());
        begins.push_back(bounds[s]);
        lengths.push_back(bounds[s + 1] - bounds[s]);
      }
      ++offsets.back();
    }
    memory_row_offsets = index_tensor(offsets);
    memory_begins = index_tensor(begins);
    memory_lengths = index_tensor(lengths);
  }

  std::vector<int64_t> sentences;  // of the rows
  bool cross_by_row = false;       // each row is a sequence of its own, not one query of its sentence's
  Prefixes prefixes;               // with the token of the step under way
  int64_t newest = 0;              // that token of row 0
  KeyValueCache cache;
  at::Tensor row_offsets;                                        // [R + 1]
  at::Tensor memory_offsets;                                     // [B + 1]
  at::Tensor memory_row_offsets, memory_begins, memory_lengths;  // queries and keys by sentence
  std::vector<Layer> layers;
  std::shared_ptr<const PackedDecoder> packed;
};

namespace {

using State = TransformerImpl::DecoderState;

at::Tensor self_step(State& state, const Attention& attention, size_t layer, const at::Tensor& x) {
  const Attention::Packed& packed = state.packed->layers[layer].self_attention;
  const at::Tensor stacked = packed.project(x);
  state.cache.write(layer, state.newest, stacked);
  return packed.output(attention.mix({stacked.select(1, 0), state.cache.keys(layer), state.cache.values(layer)},
                                     state.layers[layer].self));
}

// random(k) draws by the query's position: the token stands behind as many empty queries as came before it.
at::Tensor cross_at_position(const State& state, const Attention& attention, Projected inputs,
                             ops::AttentionOptions options) {
  const int64_t rows = inputs.q.size(0), count = state.prefixes.length();
  at::Tensor padded = at::zeros({rows, count, inputs.q.size(1), inputs.q.size(2)}, inputs.q.options());
  padded.select(1, count - 1).copy_(inputs.q);
  inputs.q = padded.flatten(0, 1);
  options.q_offsets = state.row_offsets * count;
  return attention.mix(inputs, options).view(padded.sizes()).select(1, count - 1);
}

at::Tensor cross_step(const State& state, const Attention& attention, size_t layer, const at::Tensor& x) {
  const State::Layer& of_layer = state.layers[layer];
  const Attention::Packed& packed = state.packed->layers[layer].cross_attention;
  const Projected inputs = {packed.project(x).select(1, 0), of_layer.memory.k, of_layer.memory.v};
  ops::AttentionOptions options = of_layer.cross;
  options.q_offsets = state.memory_row_offsets;
  options.k_begins = state.memory_begins;
  options.k_lengths = state.memory_lengths;
  return packed.output(state.cross_by_row ? cross_at_position(state, attention, inputs, options)
                                          : attention.mix(inputs, options));
}

}  // namespace

std::shared_ptr<const TransformerImpl::PackedDecoder> TransformerImpl::pack_decoder(
    ops::PackedLayer::Format format) const {
  const c10::InferenceMode guard;
  auto packed = std::make_shared<PackedDecoder>();
  for (const auto& layer : parts_->decoder_layers) {
    packed->layers.push_back({layer->self_attention->packed(format), layer->cross_attention->packed(format),
                              layer->feed_forward->packed(format)});
  }
  return packed;
}

std::shared_ptr<TransformerImpl::DecoderState> TransformerImpl::start(
    const at::Tensor& memory, const at::Tensor& memory_offsets, const std::vector<int64_t>& rows,
    const std::shared_ptr<const PackedDecoder>& layers) {
  const c10::InferenceMode guard;
  const Parts& parts = *parts_;
  TORCH_CHECK(std::ranges::is_sorted(rows), "rows must be in ascending order of their sentences");
  TORCH_CHECK(layers != nullptr && layers->layers.size() == parts.decoder_layers.size(),
              "layers must be those of this model's pack_decoder()");
  const int64_t heads = parts.config.transformer_heads;
  const KeyValueCache cache(parts.config.dec_depth, heads, parts.config.dim_emb / heads, memory.options());
  auto state = std::make_shared<DecoderState>(cache);
  state->sentences = rows;
  state->memory_offsets = memory_offsets;
  for (const auto& layer : parts.decoder_layers) {
    state->cross_by_row |= uses_random(layer->cross_attention->mechanism().evaluation);
    state->layers.push_back({layer->cross_attention->project_memory(memory), layer->self_attention->options(),
                             layer->cross_attention->options()});
  }
  state->packed = layers;
  state->prefixes = Prefixes(rows.size());
  state->index_rows();
  return state;
}

at::Tensor TransformerImpl::step(DecoderState& state, const at::Tensor& tokens) {
  const c10::InferenceMode guard;
  Parts& parts = *parts_;
  const auto rows = static_cast<int64_t>(state.sentences.size());
  state.newest = state.cache.extend(rows);
  state.prefixes.append(state.newest);
  const int64_t length = state.prefixes.length();
  const at::Tensor key_tokens = index_tensor(state.prefixes.tokens()),
                   key_lengths = at::full({rows}, length, at::kLong);
  const at::Tensor key_begins = at::arange(rows, at::kLong) * length;
  for (auto& layer : state.layers) {
    layer.self.q_offsets = state.row_offsets;
    layer.self.k_tokens = key_tokens;
    layer.self.k_begins = key_begins;
    layer.self.k_lengths = key_lengths;
  }
  const PackedPositions positions{at::full({rows}, length - 1, at::kLong), length};
  const at::Tensor embedded = parts.embed({parts.target_embedding, *parts.target_positions}, tokens, positions, {});
  return parts.run_decoder(
      embedded, {},
      {.self_attention =
           [&](size_t i, const at::Tensor& x) {
             return self_step(state, *parts.decoder_layers[i]->self_attention, i, x);
           },
       .cross_attention =
           [&](size_t i, const at::Tensor& x) {
             return cross_step(state, *parts.decoder_layers[i]->cross_attention, i, x);
           },
       .feed_forward = [&](size_t i, const at::Tensor& x) { return state.packed->layers[i].feed_forward(x); }});
}

void TransformerImpl::reorder(DecoderState& state, const std::vector<int64_t>& parents) {
  const c10::InferenceMode guard;
  std::vector<int64_t> sentences(parents.size());
  for (size_t r = 0; r < parents.size(); ++r) sentences[r] = state.sentences.at(static_cast<size_t>(parents[r]));
  TORCH_CHECK(std::ranges::is_sorted(sentences), "rows must stay in ascending order of their sentences");
  state.prefixes.inherit(parents);
  if (sentences == state.sentences) return;
  state.sentences = std::move(sentences);
  state.index_rows();
}

}  // namespace fovea::nn
