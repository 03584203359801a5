#include "fovea/nn/weight_blocks.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <vector>

#include "fovea/spec/attention_parameters.h"

namespace fovea::nn {
namespace {

// A sequence, or some of its queries with the keys that they may see.
struct BlockRange {
  int64_t q_begin = 0, q_length = 0, k_begin = 0, k_length = 0;
};

at::Tensor offsets_of(const std::vector<BlockRange>& ranges, int64_t BlockRange::*length) {
  at::Tensor offsets = at::empty({std::ssize(ranges) + 1}, at::kLong);
  auto* out = offsets.mutable_data_ptr<int64_t>();
  out[0] = 0;
  for (size_t i = 0; i < ranges.size(); ++i) out[i + 1] = out[i] + ranges[i].*length;
  return offsets;
}

class WeightBlocks {
 public:
  WeightBlocks(const SeenAttention& seen, int64_t most)
      : seen_(seen), q_(seen.q.to(at::kFloat)), k_(seen.k.to(at::kFloat)), most_(most) {
    const LayerSpec layer = resolve(seen.spec, seen.place.heads);
    const bool draws = uses_random(layer), terms = seen.place.relative.any();
    // In the other kinds a query's number is counted from the first query, or from the last key.
    const bool positional = seen.place.kind == AttentionKind::kSelf && (compares_positions(layer) || terms);
    can_cut_ = is_causal() || (!positional && !draws);
  }

  void run(const std::function<void(const WeightBlock&)>& see) const {
    const auto* q = seen_.options.q_offsets->const_data_ptr<int64_t>();
    const auto* k = seen_.options.k_offsets->const_data_ptr<int64_t>();
    const int64_t count = seen_.options.q_offsets->numel() - 1;
    for (int64_t first = 0; first < count;) {
      std::vector<BlockRange> ranges;
      int64_t queries = 0, keys = 0;
      for (int64_t b = first; b < count; ++b) {
        const BlockRange range{q[b], q[b + 1] - q[b], k[b], k[b + 1] - k[b]};
        queries = std::max(queries, range.q_length), keys = std::max(keys, range.k_length);
        if (!ranges.empty() && (std::ssize(ranges) + 1) * weights_of(queries, keys) > most_) break;
        ranges.push_back(range);
      }
      if (ranges.size() == 1 && can_cut_ && weights_of(ranges[0].q_length, ranges[0].k_length) > most_) {
        cut(ranges[0], first, see);
      } else {
        compute(ranges, [&](size_t i, WeightBlock block) {
          block.sequence = first + static_cast<int64_t>(i), block.keys = ranges[i].k_length;
          if (!is_cross()) block.first_position = ranges[i].k_length - ranges[i].q_length;
          see(block);
        });
      }
      first += std::ssize(ranges);
    }
  }

 private:
  bool is_causal() const { return seen_.place.kind == AttentionKind::kCausal; }
  bool is_cross() const { return seen_.place.kind == AttentionKind::kCross; }
  int64_t weights_of(int64_t queries, int64_t keys) const { return seen_.place.heads * queries * keys; }

  void cut(const BlockRange& whole, int64_t sequence, const std::function<void(const WeightBlock&)>& see) const {
    const int64_t rows = std::max<int64_t>(1, most_ / weights_of(1, whole.k_length));
    const int64_t before = whole.k_length - whole.q_length;  // keys of a memory
    for (int64_t first = 0; first < whole.q_length; first += rows) {
      const int64_t last = std::min(first + rows, whole.q_length);
      const int64_t keys = is_causal() ? before + last : whole.k_length;
      compute({{whole.q_begin + first, last - first, whole.k_begin, keys}}, [&](size_t, WeightBlock block) {
        block.sequence = sequence, block.first_query = first, block.keys = whole.k_length;
        if (!is_cross()) block.first_position = before;
        see(block);
      });
    }
  }

  // Ranges behind each other.
  template <class See>
  void compute(const std::vector<BlockRange>& ranges, const See& see) const {
    const int64_t q_begin = ranges.front().q_begin, k_begin = ranges.front().k_begin;
    const at::Tensor q_offsets = offsets_of(ranges, &BlockRange::q_length);
    const at::Tensor k_offsets = offsets_of(ranges, &BlockRange::k_length);
    const int64_t queries = q_offsets[-1].item<int64_t>(), keys = k_offsets[-1].item<int64_t>();
    ops::AttentionOptions options = seen_.options;
    options.q_offsets = q_offsets, options.k_offsets = k_offsets;
    options.dropout = 0;
    for (at::Tensor* term : {&options.offsets.by_query, &options.offsets.queries}) {
      if (term->defined()) *term = term->narrow(0, q_begin, queries);
    }
    if (at::Tensor& lists = options.pairs.lists; lists.defined()) lists = lists.narrow(0, q_begin, queries);
    ops::RoutingInputs routing;
    if (options.routing != nullptr) routing = *options.routing;
    routing.known = &seen_.routed, routing.known_begin = q_begin;
    options.routing = &routing;
    const at::Tensor weights =
        ops::attention_weights(q_.narrow(0, q_begin, queries), k_.narrow(0, k_begin, keys), seen_.layer, options)
            .to(at::kCPU)
            .contiguous();
    for (size_t i = 0; i < ranges.size(); ++i) {
      WeightBlock block;
      block.queries = ranges[i].q_length, block.heads = weights.size(1), block.columns = ranges[i].k_length;
      block.head_stride = weights.stride(1), block.row_stride = weights.stride(2);
      block.data = weights.const_data_ptr<float>() + static_cast<int64_t>(i) * weights.stride(0);
      see(i, block);
    }
  }

  const SeenAttention& seen_;
  at::Tensor q_, k_;
  int64_t most_;
  bool can_cut_ = false;
};

// Weights that are there already.
void each_sequence(const SeenAttention& seen, const std::function<void(const WeightBlock&)>& see) {
  const at::Tensor weights = seen.weights.to(at::kCPU, at::kFloat).contiguous();
  const auto* q = seen.options.q_offsets->const_data_ptr<int64_t>();
  const auto* k = seen.options.k_offsets->const_data_ptr<int64_t>();
  for (int64_t b = 0; b < weights.size(0); ++b) {
    const int64_t keys = k[b + 1] - k[b];
    see({.sequence = b,
         .queries = q[b + 1] - q[b],
         .heads = weights.size(1),
         .keys = keys,
         .columns = keys,
         .data = weights.const_data_ptr<float>() + b * weights.stride(0),
         .head_stride = weights.stride(1),
         .row_stride = weights.stride(2)});
  }
}

}  // namespace

void each_weight_block(const SeenAttention& seen, const std::function<void(const WeightBlock&)>& see, int64_t most) {
  if (seen.weights.defined()) return each_sequence(seen, see);
  WeightBlocks(seen, most).run(see);
}

}  // namespace fovea::nn
