#include "fovea/nn/stack_stepper.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "fovea/nn/index_tensor.h"

namespace fovea::nn {
namespace {

StepCache empty_cache(const StackStepper::Parts& parts, StepRows kind, int64_t rows) {
  if (parts.stack.place().recurrent) return {kind, rows, {}, parts.embedding.weight().options()};
  const AttentionPlace& place = parts.stack.layers().front()->self_attention->place();
  return {
      kind, rows, {parts.stack.place().depth, place.key_heads(), place.head_dim()}, parts.embedding.weight().options()};
}

class CopiedTokens final : public StepTokens {
 public:
  explicit CopiedTokens(std::vector<CacheRows> layers) : layers_(std::move(layers)) {}
  int64_t bytes() const override {
    int64_t sum = 0;
    for (const CacheRows& rows : layers_) sum += rows.bytes();
    return sum;
  }
  const std::vector<CacheRows>& layers() const { return layers_; }

 private:
  std::vector<CacheRows> layers_;
};

}  // namespace

StackStepper::StackStepper(const Parts& parts, StepRows kind, int64_t rows, std::optional<CrossSteps> cross)
    : stack_(parts.stack),
      embedding_(parts.embedding),
      layers_(parts.layers),
      cut_(parts.cut),
      cache_(empty_cache(parts, kind, rows)),
      cross_(std::move(cross)) {
  const c10::InferenceMode guard;
  TORCH_CHECK(layers_ != nullptr && layers_->layers.size() == stack_.layers().size(),
              "the prepacked layers must be those of this model");
  if (stack_.place().recurrent) {
    const at::Tensor& table = embedding_.weight();
    ssru_.emplace(stack_.place().depth, rows, table.size(1), table.options());
    return;
  }
  for (const auto& layer : stack_.layers()) {
    const Attention& attention = *layer->self_attention;
    if (ScreenedKeys::are_read_by(attention)) cache_.screen_keys(options_.size());
    if (parts.cache != CacheType::kModel && reads_narrow_rows(attention)) cache_.narrow(options_.size(), parts.cache);
    options_.push_back(layer->self_attention->options());
    routing_.push_back(RoutingSteps::of_self(*layer->self_attention, rows));
    indexes_.push_back(IndexSteps::of(attention, rows));
    blocks_.push_back(BlockSteps::of(attention, rows, embedding_.weight().options()));
  }
}

at::Tensor StackStepper::step(const at::Tensor& tokens) {
  const c10::InferenceMode guard;
  return run(tokens, at::arange(cache_.rows() + 1, at::kLong));
}

at::Tensor StackStepper::prefill(const at::Tensor& tokens, const at::Tensor& offsets) {
  const c10::InferenceMode guard;
  const at::Tensor last = offsets.narrow(0, 1, cache_.rows()) - 1;
  return read(tokens, offsets).index_select(0, last.to(tokens.device()));
}

at::Tensor StackStepper::read(const at::Tensor& tokens, const at::Tensor& offsets) {
  const c10::InferenceMode guard;
  TORCH_CHECK(!cross_, "only stacks without cross-attention read several tokens at once");
  return cut_.segment > 0 ? read_segments(tokens, offsets) : run(tokens, offsets);
}

at::Tensor StackStepper::read_segments(const at::Tensor& tokens, const at::Tensor& offsets) {
  std::vector<int64_t> next(offsets.const_data_ptr<int64_t>(), offsets.const_data_ptr<int64_t>() + cache_.rows());
  const auto* ends = offsets.const_data_ptr<int64_t>() + 1;
  at::Tensor hidden;
  for (;;) {
    std::vector<int64_t> chosen, bounds = {0};
    for (size_t r = 0; r < next.size(); ++r) {
      const int64_t room = cut_.segment - cache_.lengths()[r] % cut_.segment;
      const int64_t count = std::min(room, ends[r] - next[r]);
      for (int64_t i = 0; i < count; ++i) chosen.push_back(next[r] + i);
      next[r] += count;
      bounds.push_back(std::ssize(chosen));
    }
    if (chosen.empty()) return hidden;
    const at::Tensor places = index_tensor(std::move(chosen)).to(tokens.device());
    const at::Tensor part = run(tokens.index_select(0, places), index_tensor(std::move(bounds)));
    if (!hidden.defined()) hidden = at::zeros({tokens.size(0), part.size(1)}, part.options());
    hidden.index_copy_(0, places, part);
  }
}

std::vector<int64_t> StackStepper::first_seen() const {
  std::vector<int64_t> first(cache_.lengths().size(), 0);
  if (cut_.segment == 0) return first;
  for (size_t r = 0; r < first.size(); ++r) {
    const int64_t segment = cache_.lengths()[r] / cut_.segment * cut_.segment;
    first[r] = std::max<int64_t>(0, segment - cut_.memory);
  }
  return first;
}

at::Tensor StackStepper::run(const at::Tensor& tokens, const at::Tensor& offsets) {
  const TokenPositions positions = token_positions(offsets, cache_.lengths());
  TokenPositions added = positions;
  if (cut_.segment > 0) added = {positions.position.remainder(cut_.segment), std::min(positions.longest, cut_.segment)};
  const at::Tensor embedded = embedding_(tokens, added, {});  // may throw: only then do the rows grow
  const std::vector<int64_t> first = first_seen();
  cache_.append(offsets);
  if (!ssru_) place_keys(offsets, first);
  return stack_.run(
      embedded, {},
      {.first =
           [&](size_t i, const at::Tensor& x) {
             return ssru_ ? ssru_->step(i, (*layers_->layers[i].ssru)(x)) : self_attention(i, x, positions.position);
           },
       .cross_attention = [&](size_t i, const at::Tensor& x) { return cross_attention(i, x); },
       .feed_forward = [&](size_t i, const at::Tensor& x) { return layers_->layers[i].feed_forward(x); }});
}

void StackStepper::place_keys(const at::Tensor& offsets, std::span<const int64_t> first) {
  lengthen_tables();
  places_ = {offsets, cache_.key_places(first), {first.begin(), first.end()}};
  const StepCache::Keys& keys = places_.keys;
  for (ops::AttentionOptions& options : options_) {
    options.q_offsets = offsets;
    options.k_begins = keys.begins;
    options.k_lengths = keys.lengths;
    options.k_tokens = keys.tokens;
  }
}

at::Tensor StackStepper::self_attention(size_t layer, const at::Tensor& x, const at::Tensor& positions) {
  const Attention::Prepacked& packed = *layers_->layers[layer].self_attention;
  const Attention& attention = *stack_.layers()[layer]->self_attention;
  const at::Tensor stacked = packed.project(x);
  const at::Tensor unturned = attention.turn(stacked, positions);  // before the cache, whose keys keep their positions
  const std::shared_ptr<RoutingSteps>& routing = routing_[layer];
  if (routing) routing->share_keys(stacked);
  cache_.write(layer, stacked);
  const at::Tensor q = stacked.narrow(1, 0, packed.heads);
  if (cache_.is_narrow(layer)) {
    const ops::AttentionOptions& places = options_[layer];
    const CacheRows& rows = cache_.layer_rows(layer);
    const at::Tensor scaled = attention.scaled({q, rows.narrow_half(0).data, {}, {}, x}, places);
    return packed.output(attend_narrow(scaled, {rows, *places.q_offsets, *places.k_begins, *places.k_lengths}), x);
  }
  const Projected inputs = {q, cache_.keys(layer), cache_.values(layer), unturned, x};
  ops::AttentionOptions options = options_[layer];
  options.screen = cache_.key_screen(layer);
  const Projected mixed = attention.with_terms(inputs, tables_[layer], options);
  if (IndexSteps* index = indexes_[layer].get()) {
    options.pairs = {index->choose(mixed.q, mixed.k, places_), 1};
  }
  std::vector<at::Tensor> chosen;
  if (BlockSteps* blocks = blocks_[layer].get()) {
    chosen = blocks->choose(mixed.q, mixed.k, places_);
    options.chosen_blocks = &chosen;
  }
  if (!routing) return packed.output(attention.mix(mixed, tables_[layer], options), x);
  const RoutingSteps::Cache cache{inputs.k, inputs.v, *options.k_begins, *options.k_lengths, options.k_tokens};
  ops::RoutingInputs routed;
  routed.outputs = routing->mix(inputs.q, *options.q_offsets, &cache);
  options.routing = &routed;
  return packed.output(attention.mix(mixed, tables_[layer], options), x);
}

void StackStepper::lengthen_tables() {
  tables_.resize(stack_.layers().size());
  const auto lengths = cache_.lengths();
  const int64_t longest = lengths.empty() ? 0 : *std::ranges::max_element(lengths);
  for (size_t layer = 0; layer < tables_.size(); ++layer) {
    const Attention& attention = *stack_.layers()[layer]->self_attention;
    if (!attention.has_terms() || longest <= tables_[layer].length) continue;
    // Twice as long each time: the work for all steps together stays that for the longest row.
    const auto length = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(longest)));
    tables_[layer] = attention.tables(std::max<int64_t>(length, 64), embedding_.weight().options());
  }
}

at::Tensor StackStepper::cross_attention(size_t layer, const at::Tensor& x) const {
  const Attention::Prepacked& packed = *layers_->layers[layer].cross_attention;
  return packed.output(cross_->mix(layer, {packed.project(x), x}, cache_.lengths()), x);
}

void StackStepper::reorder(const std::vector<int64_t>& parents) {
  const c10::InferenceMode guard;
  if (cross_) cross_->inherit(parents);
  for (const auto& routing : routing_) {
    if (routing) routing->inherit(parents);
  }
  for (const auto& blocks : blocks_) {
    if (blocks) blocks->inherit(parents);
  }
  for (const auto& index : indexes_) {
    if (index) index->inherit(parents);
  }
  if (ssru_) ssru_->inherit(parents);
  cache_.inherit(parents);
}

bool StackStepper::can_add() const {
  return (!cross_ || cross_->can_add()) && std::ranges::none_of(routing_, [](const auto& of) { return of != nullptr; });
}

std::shared_ptr<const StepTokens> StackStepper::copy_tokens(int64_t row, int64_t first, int64_t count) const {
  const c10::InferenceMode guard;
  TORCH_CHECK(can_add() && !cross_, "only rows that can be added are copied");
  return std::make_shared<CopiedTokens>(cache_.copy_tokens(row, {first, count}));
}

void StackStepper::paste_tokens(int64_t row, const StepTokens& tokens) {
  const c10::InferenceMode guard;
  TORCH_CHECK(can_add() && !cross_, "only rows that can be added are copied");
  cache_.paste_tokens(row, dynamic_cast<const CopiedTokens&>(tokens).layers());
}

void StackStepper::add_rows(int64_t count) {
  const c10::InferenceMode guard;
  TORCH_CHECK(can_add() && !cross_, "rows of routed heads begin together, and those of a decoder with sentences");
  add_cache_rows(count);
}

void StackStepper::add_cache_rows(int64_t count) {
  for (const auto& blocks : blocks_) {
    if (blocks) blocks->add_rows(count);
  }
  for (const auto& index : indexes_) {
    if (index) index->add_rows(count);
  }
  cache_.add_rows(count);
}

void StackStepper::add_sentences(const OtherSide& other) {
  const c10::InferenceMode guard;
  TORCH_CHECK(can_add() && cross_, "rows of routed heads begin together, and only a decoder reads sentences");
  cross_->add(other);
  if (ssru_) ssru_->add_rows(other.offsets.numel() - 1);
  add_cache_rows(other.offsets.numel() - 1);
}

}  // namespace fovea::nn
