#include "fovea/nn/routing_steps.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "fovea/nn/index_tensor.h"
#include "fovea/ops/executor_for.h"
#include "fovea/ops/routing_batch.h"
#include "fovea/ops/routing_rows.h"
#include "fovea/spec/attention_parameters.h"

namespace fovea::nn {
namespace {

// [tokens, H, D] of a larger buffer as rows [N, 1, D]: token t of head h is row t * row_stride(x) + h.
int64_t row_stride(const at::Tensor& x) { return x.stride(0) / x.size(2); }
at::Tensor flat_rows(const at::Tensor& x) {
  const int64_t width = x.size(2), count = (x.size(0) - 1) * row_stride(x) + x.size(1);
  return x.as_strided({count, 1, width}, {width, width, 1});
}

std::vector<int64_t> numbers_of(const at::Tensor& x) {
  const auto* data = x.const_data_ptr<int64_t>();
  return {data, data + x.numel()};
}

}  // namespace

RoutingSteps::RoutingSteps(const Attention& attention, int64_t rows)
    : inputs_(attention.routing()), options_(attention.options()), lengths_(static_cast<size_t>(rows), 0) {
  int64_t head = 0, with_centroids = 0;
  for (const HeadGroup& part : attention.mechanism().evaluation) {
    const int64_t first = head;
    head += part.num_heads;
    if (!part.spec.route()) continue;
    Group group;
    group.spec = part.spec;
    group.within = layer_of(ops::spec_within_cluster(part.spec, options_.kind, inputs_), 1);
    group.first_head = first, group.heads = part.num_heads;
    group.limits_own_keys = limits_own_keys(*part.spec.route(), options_.kind, inputs_.keys);
    if (part.spec.route()->has_centroids()) {
      group.centroids =
          inputs_.centroids.narrow(0, with_centroids, group.heads).narrow(1, 0, part.spec.route()->clusters);
      with_centroids += group.heads;
    }
    group.states.resize(static_cast<size_t>(rows * group.heads));
    if (group.limits_own_keys) group.key_states.resize(group.states.size());
    groups_.push_back(std::move(group));
  }
}

std::shared_ptr<RoutingSteps> RoutingSteps::of_self(const Attention& attention, int64_t rows) {
  std::shared_ptr<RoutingSteps> steps(new RoutingSteps(attention, rows));
  return steps->groups_.empty() ? nullptr : steps;
}

std::shared_ptr<RoutingSteps> RoutingSteps::of_cross(const Attention& attention, const Projected& keys,
                                                     const at::Tensor& offsets, std::span<const int64_t> sentences) {
  std::shared_ptr<RoutingSteps> steps(new RoutingSteps(attention, std::ssize(sentences)));
  if (steps->groups_.empty()) return nullptr;
  steps->take_keys(keys, offsets);
  steps->sentences_.assign(sentences.begin(), sentences.end());
  return steps;
}

void RoutingSteps::take_keys(const Projected& keys, const at::Tensor& offsets) {
  const auto* bounds = offsets.const_data_ptr<int64_t>();
  std::vector<kernels::TokenRange> ranges;
  for (int64_t b = 0; b + 1 < offsets.numel(); ++b) ranges.push_back({bounds[b], bounds[b + 1] - bounds[b]});
  sequences_ = std::ssize(ranges);
  for (Group& group : groups_) {
    const at::Tensor vectors = ops::routing_vectors(keys.k.narrow(1, group.first_head, group.heads));
    group.key_members =
        ops::members_of(vectors, ranges, {group.spec, inputs_, group.centroids, 0}, streams_of(group, true));
    group.keys = vectors.reshape({-1, 1, vectors.size(2)});
    group.values = keys.v.narrow(1, group.first_head, group.heads).reshape(group.keys.sizes());
  }
}

std::vector<uint64_t> RoutingSteps::streams_of(const Group& group, bool own_keys) const {
  ops::LayerCall arguments;
  arguments.seed = options_.seed, arguments.layer = options_.layer, arguments.first_head = group.first_head;
  return ops::member_streams(arguments, group.heads, own_keys);
}

void RoutingSteps::share_keys(const at::Tensor& stacked) {
  for (Group& group : groups_) {
    const int64_t all = stacked.size(1) / 3;  // of q, as of k and of v
    const auto heads = [&](int64_t part) { return stacked.narrow(1, part * all + group.first_head, group.heads); };
    heads(1).copy_(ops::routing_vectors(heads(group.limits_own_keys ? 1 : 0)));
    group.added_keys = heads(1);
  }
}

void RoutingSteps::append(const Group& group, std::vector<HeadState>& states, const at::Tensor& vectors,
                          const at::Tensor& offsets) const {
  const int64_t clusters = group.route().clusters, tokens = vectors.size(0);
  const std::vector<int64_t> bounds = numbers_of(offsets);
  at::Tensor scores;
  std::vector<int32_t> nearest;
  if (group.centroids.defined()) scores = ops::cluster_scores(vectors, group.centroids).to(at::kFloat);
  if (group.route().is_causal())
    nearest = kernels::nearest_clusters<float>(
        {group.heads, tokens, clusters,
         [&](int64_t head) { return scores.const_data_ptr<float>() + head * tokens * clusters; }},
        ops::executor_for(scores.numel()));
  const std::vector<uint64_t> streams = streams_of(group, &states == &group.key_states);
  ops::executor_for(vectors.numel()).run(std::ssize(states), [&](int64_t index, int) {
    const int64_t row = index / group.heads, head = index % group.heads;
    HeadState& state = states[static_cast<size_t>(index)];
    state.members.resize(group.route().is_causal() ? static_cast<size_t>(clusters) : 0);
    int64_t position = lengths_[static_cast<size_t>(row)];
    for (int64_t t = bounds[static_cast<size_t>(row)]; t < bounds[static_cast<size_t>(row) + 1]; ++t, ++position) {
      if (group.route().is_causal()) {
        state.members[static_cast<size_t>(nearest[static_cast<size_t>(head * tokens + t)])].push_back(
            static_cast<int32_t>(position));
        continue;
      }
      for (int64_t c = 0; c < clusters; ++c) {
        state.ranks.push_back(scores.defined()
                                  ? kernels::rank_of(scores.const_data_ptr<float>()[(head * tokens + t) * clusters + c])
                                  : kernels::random_rank(streams[static_cast<size_t>(head)], c, position));
      }
    }
  });
}

std::vector<int32_t> RoutingSteps::members(const Routed& route, const HeadState& state, int64_t cluster,
                                           const NewTokens& tokens) const {
  const int64_t window = route.window;
  if (route.is_causal()) {
    const std::vector<int32_t>& all = state.members[static_cast<size_t>(cluster)];
    const auto first_new = std::ranges::lower_bound(all, static_cast<int32_t>(tokens.first));
    const auto first_seen = std::lower_bound(all.begin(), first_new, static_cast<int32_t>(tokens.seen));
    const auto earlier = std::min<int64_t>(first_new - first_seen, window - 1);
    return {first_new - earlier, all.end()};
  }
  const int64_t clusters = route.clusters, count = std::ssize(state.ranks) / clusters;
  if (count > window && tokens.first + 1 == count) {
    // A single new token is most often not among the best, which is known without finding them.
    const uint32_t own = state.ranks[static_cast<size_t>(tokens.first * clusters + cluster)];
    int64_t better = 0;
    for (int64_t i = 0; i < tokens.first; ++i)
      better += state.ranks[static_cast<size_t>(i * clusters + cluster)] >= own ? 1 : 0;
    if (better >= window) return {};
  }
  return kernels::best_places({state.ranks, cluster, clusters}, window);
}

std::vector<int32_t> RoutingSteps::own_keys(const Routed& route, const HeadState& state, int64_t cluster,
                                            const NewTokens& tokens) const {
  if (!route.is_causal()) return kernels::best_places({state.ranks, cluster, route.clusters}, route.window);
  const std::vector<int32_t>& all = state.members[static_cast<size_t>(cluster)];
  const auto first_new = std::ranges::lower_bound(all, static_cast<int32_t>(tokens.first));
  const auto first_seen = std::lower_bound(all.begin(), first_new, static_cast<int32_t>(tokens.seen));
  return {first_new - std::min<int64_t>(first_new - first_seen, route.window), all.end()};
}

RoutingSteps::List RoutingSteps::list_of(const Group& group, int64_t head, int64_t cluster, const NewTokens& tokens,
                                         const Cache* cache) const {
  const auto state = static_cast<size_t>(tokens.row * group.heads + head);
  std::vector<int32_t> positions = members(group.route(), group.states[state], cluster, tokens);
  const std::vector<int32_t> new_ones(std::ranges::lower_bound(positions, static_cast<int32_t>(tokens.first)),
                                      positions.end());
  List list;
  for (const int32_t position : new_ones)
    list.queries.push_back(static_cast<int32_t>((tokens.token + position - tokens.first) * group.heads + head));
  if (list.queries.empty()) return list;
  if (group.limits_own_keys) {
    positions = own_keys(group.route(), group.key_states[state], cluster, tokens);
    for (const int32_t query : new_ones) {
      const auto [begin, end] = ops::seen_keys(positions, query, group.route());
      if (list.runs.empty() || list.runs.back().begin != begin || list.runs.back().length != end - begin)
        list.runs.push_back({0, begin, end - begin});
      ++list.runs.back().queries;
    }
  }
  if (cache == nullptr) {
    const int64_t l =
        (head * sequences_ + sentences_[static_cast<size_t>(tokens.row)]) * group.route().clusters + cluster;
    const auto& [rows, offsets] = group.key_members;
    list.keys.assign(rows.begin() + offsets[static_cast<size_t>(l)],
                     rows.begin() + offsets[static_cast<size_t>(l) + 1]);
    return list;
  }
  const int64_t begin = cache->begins.const_data_ptr<int64_t>()[tokens.row];
  const auto* places = cache->tokens ? cache->tokens->const_data_ptr<int64_t>() : nullptr;
  const int64_t stride = row_stride(cache->keys);
  for (const int32_t position : positions) {
    const int64_t place = begin + position - tokens.seen, token = places != nullptr ? places[place] : place;
    list.keys.push_back(token * stride + group.first_head + head);
  }
  return list;
}

RoutingSteps::Lists RoutingSteps::lists_of(const Group& group, const at::Tensor& offsets, const Cache* cache) const {
  const int64_t rows = std::ssize(lengths_), clusters = group.route().clusters;
  const std::vector<int64_t> bounds = numbers_of(offsets);
  std::vector<List> all(static_cast<size_t>(group.heads * rows * clusters));
  const int64_t tokens_so_far = std::accumulate(lengths_.begin(), lengths_.end(), bounds.back());
  ops::executor_for(tokens_so_far * group.heads * clusters).run(group.heads * rows, [&](int64_t index, int) {
    const int64_t head = index / rows, row = index % rows;
    const auto r = static_cast<size_t>(row);
    const int64_t length = lengths_[r] + bounds[r + 1] - bounds[r];
    const int64_t seen = cache == nullptr ? 0 : length - cache->lengths.const_data_ptr<int64_t>()[row];
    const NewTokens tokens{row, lengths_[r], bounds[r], seen};
    for (int64_t c = 0; c < clusters; ++c)
      all[static_cast<size_t>(index * clusters + c)] = list_of(group, head, c, tokens, cache);
  });
  Lists lists;
  lists.queries.offsets = {0};
  for (size_t l = 0; l < all.size(); ++l) {
    if (l % static_cast<size_t>(rows * clusters) == 0) lists.head_starts.push_back(lists.key_begins.size());
    if (all[l].queries.empty()) continue;
    if (all[l].runs.empty()) all[l].runs = {{std::ssize(all[l].queries), 0, std::ssize(all[l].keys)}};
    for (const Run& run : all[l].runs) {
      lists.queries.offsets.push_back(lists.queries.offsets.back() + run.queries);
      lists.key_begins.push_back(std::ssize(lists.keys) + run.begin);
      lists.key_lengths.push_back(run.length);
    }
    lists.queries.rows.insert(lists.queries.rows.end(), all[l].queries.begin(), all[l].queries.end());
    lists.keys.insert(lists.keys.end(), all[l].keys.begin(), all[l].keys.end());
  }
  lists.head_starts.push_back(lists.key_begins.size());
  return lists;
}

at::Tensor RoutingSteps::attend(const Group& group, const at::Tensor& queries, const Lists& lists,
                                const Cache* cache) const {
  const at::Tensor keys = cache != nullptr ? flat_rows(cache->keys) : group.keys;
  const at::Tensor values = cache != nullptr ? flat_rows(cache->values) : group.values;
  ops::LayerCall arguments = ops::layer_call({}, group.within);
  arguments.kind = group.limits_own_keys ? AttentionKind::kCross : options_.kind;
  arguments.scale = ops::scale_within_cluster(inputs_, queries.size(2));
  arguments.seed = options_.seed, arguments.layer = options_.layer;
  arguments.k_tokens = index_tensor(lists.keys);
  // All heads take one call, unless each has a learned number of its own: then each head takes one.
  const std::optional<at::Tensor>& learned = learns_sink(group.spec.transform) ? options_.sinks : options_.alpha;
  const bool by_head = learned.has_value() && learns_argument(group.spec.transform);
  const int64_t calls = by_head ? group.heads : 1;
  std::vector<at::Tensor> parts;
  for (int64_t call = 0; call < calls; ++call) {
    const size_t first = by_head ? lists.head_starts[static_cast<size_t>(call)] : 0;
    const size_t last = by_head ? lists.head_starts[static_cast<size_t>(call) + 1] : lists.key_begins.size();
    const int64_t begin = lists.queries.offsets[first], end = lists.queries.offsets[last];
    if (begin == end) continue;
    std::vector<int64_t> offsets(lists.queries.offsets.begin() + static_cast<int64_t>(first),
                                 lists.queries.offsets.begin() + static_cast<int64_t>(last) + 1);
    for (int64_t& offset : offsets) offset -= begin;
    const auto part = [&](const std::vector<int64_t>& all) {
      return index_tensor(std::span(all).subspan(first, last - first));
    };
    arguments.q_offsets = index_tensor(std::move(offsets));
    arguments.k_begins = part(lists.key_begins);
    arguments.k_lengths = part(lists.key_lengths);
    arguments.first_head = group.first_head + call;
    if (by_head) arguments.alpha = learned->narrow(0, group.first_head + call, 1);
    parts.push_back(ops::attend({queries.narrow(0, begin, end - begin), keys, values}, arguments).out);
  }
  at::Tensor mixed = at::cat(parts);
  if (cache == nullptr || group.limits_own_keys || inputs_.self != ops::SelfKey::kLast) return mixed;
  // A query without another key sees its own, which is the first key of its list.
  std::vector<int64_t> own;
  at::Tensor alone = at::zeros({mixed.size(0), 1, 1}, at::kBool);
  for (size_t l = 0; l < lists.key_begins.size(); ++l) {
    const int64_t first = lists.queries.offsets[l], count = lists.queries.offsets[l + 1] - first;
    const bool is_alone = group.route().is_causal() && group.route().window == 1;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t rank = lists.key_lengths[l] - count + i;
      own.push_back(lists.keys[static_cast<size_t>(lists.key_begins[l] + rank)]);
      alone.mutable_data_ptr<bool>()[first + i] = rank == 0 || is_alone;
    }
  }
  return at::where(alone.to(mixed.device()), values.index_select(0, index_tensor(own).to(values.device())), mixed);
}

at::Tensor RoutingSteps::mix_group(Group& group, const at::Tensor& q, const at::Tensor& offsets, const Cache* cache) {
  const at::Tensor vectors = ops::routing_vectors(q.narrow(1, group.first_head, group.heads));
  append(group, group.states, vectors, offsets);
  if (group.limits_own_keys) append(group, group.key_states, group.added_keys, offsets);
  const Lists lists = lists_of(group, offsets, cache);
  if (lists.queries.rows.empty()) return at::zeros(vectors.sizes(), vectors.options());
  const auto members = c10::make_intrusive<ops::MemberRows>(lists.queries, vectors.size(0), group.heads);
  const at::Tensor mixed = attend(group, ops::gather_rows(vectors, members), lists, cache);
  return ops::sum_rows(mixed, members, ops::row_scale_of(group.route()));
}

std::vector<at::Tensor> RoutingSteps::mix(const at::Tensor& q, const at::Tensor& offsets, const Cache* cache) {
  std::vector<at::Tensor> outputs;
  for (Group& group : groups_) outputs.push_back(mix_group(group, q, offsets, cache));
  const std::vector<int64_t> bounds = numbers_of(offsets);
  for (size_t r = 0; r < lengths_.size(); ++r) lengths_[r] += bounds[r + 1] - bounds[r];
  return outputs;
}

void RoutingSteps::inherit(std::span<const int64_t> parents) {
  const auto at_parents = [&](const auto& all, int64_t each) {
    std::decay_t<decltype(all)> next;
    for (const int64_t parent : parents) {
      for (int64_t i = 0; i < each; ++i) next.push_back(all.at(static_cast<size_t>(parent * each + i)));
    }
    return next;
  };
  for (Group& group : groups_) {
    group.states = at_parents(group.states, group.heads);
    if (group.limits_own_keys) group.key_states = at_parents(group.key_states, group.heads);
  }
  lengths_ = at_parents(lengths_, 1);
  if (!sentences_.empty()) sentences_ = at_parents(sentences_, 1);
}

}  // namespace fovea::nn
