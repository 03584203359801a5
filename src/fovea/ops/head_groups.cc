#include "fovea/ops/head_groups.h"

#include <ATen/ops/stack.h>

#include "fovea/base/strings.h"
#include "fovea/ops/attention_checks.h"
#include "fovea/ops/attention_layout.h"
#include "fovea/ops/block_choice.h"
#include "fovea/ops/given_pairs.h"

namespace fovea::ops {
namespace {

struct HeadRange {
  int64_t first = 0, count = 0;
  // The heads among `all`, in dimension `dim`; x itself where it has no heads of its own.
  void cut(at::Tensor& x, int64_t dim, int64_t all) const {
    if (x.defined() && x.size(dim) == all && count != all) x = x.narrow(dim, first, count);
  }
};

HeadRange heads_of(const LayerCall& call, const GroupRange& groups) {
  HeadRange heads;
  for (size_t g = 0; g < groups.first; ++g) heads.first += call.groups[g].num_heads;
  for (size_t g = groups.first; g < groups.first + groups.count; ++g) heads.count += call.groups[g].num_heads;
  return heads;
}

void cut_terms(OffsetTerms& terms, const HeadRange& heads, int64_t all) {
  heads.cut(terms.by_head, 0, all), heads.cut(terms.by_query, 1, all), heads.cut(terms.queries, 1, all);
  heads.cut(terms.rows, 1, all), heads.cut(terms.values, 1, all);
}

const RoutingInputs& routing_of(const AttentionOptions& options) {
  static const RoutingInputs kNone;
  return options.routing != nullptr ? *options.routing : kNone;
}

bool has_centroids(const AttentionLayer::Group& group) {
  return group.is_routed() && group.spec.route()->has_centroids();
}

}  // namespace

kernels::KeySharing key_sharing(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options) {
  if (!options.enable_gqa || q.is_nested() || k.is_nested()) return {};
  return kernels::key_sharing(view_of(q), view_of(k));
}

CallPart part_of(const CoreTensors& x, const LayerCall& call, const GroupRange& groups) {
  CallPart part{x, call};
  if (groups.count < call.groups.size()) {
    const int64_t all = x.q.size(1), of_keys = x.k.size(1);
    const HeadRange heads = heads_of(call, groups);
    const int64_t first = call.keys().key_head(heads.first);
    const HeadRange key_heads{first, call.keys().key_head(heads.first + heads.count - 1) + 1 - first};
    heads.cut(part.x.q, 1, all), key_heads.cut(part.x.k, 1, of_keys), key_heads.cut(part.x.v, 1, of_keys);
    part.call.groups = call.groups.subspan(groups.first, groups.count);
    part.call.first_head += heads.first;
    if (part.call.alpha) heads.cut(*part.call.alpha, 0, all);
    cut_terms(part.call.offsets, heads, all);
    if (PairLists& pairs = part.call.pairs; pairs.by_head && pairs.lists.size(1) == of_keys) {
      key_heads.cut(pairs.lists, 1, of_keys);
    } else if (pairs.by_head) {
      heads.cut(pairs.lists, 1, all);
    }
    KeyScreen& screen = part.call.screen;
    key_heads.cut(screen.rows, 1, of_keys), key_heads.cut(screen.steps, 1, of_keys);
    key_heads.cut(screen.extents, 0, of_keys);
  }
  if (groups.count > 1) return part;
  const AttentionLayer::Group& group = part.call.groups[0];
  if (!group.reads_alpha) part.call.alpha.reset();
  if (group.span == 0 && call.offsets.for_spans) part.call.offsets = {};
  return part;
}

CallPart routed_part(const CoreTensors& x, const LayerCall& call, size_t group) {
  kernels::check_choice(call.groups[group], views_of(call.pairs), vectors_of(call), call.kind);
  CallPart part = part_of(x, call, {group, 1});
  // A cluster does not keep the offsets of its sequence.
  part.call.offsets = {}, part.call.value_offsets = 0;
  if (call.heads_per_key == 1) return part;
  std::vector<at::Tensor> k, v;
  for (int64_t h = 0; h < part.x.q.size(1); ++h) {
    k.push_back(part.x.k.select(1, part.call.keys().key_head(h)));
    v.push_back(part.x.v.select(1, part.call.keys().key_head(h)));
  }
  part.x.k = at::stack(k, 1), part.x.v = at::stack(v, 1);
  part.call.heads_per_key = 1;
  return part;
}

CallPart chosen_part(const CoreTensors& x, const LayerCall& call, size_t group) {
  kernels::check_choice(call.groups[group], views_of(call.pairs), vectors_of(call), call.kind);
  CallPart part = part_of(x, call, {group, 1});
  const BlockChoice& choice = *call.groups[group].spec.blocks();
  size_t place = 0;
  for (size_t g = 0; g < group; ++g) place += call.groups[g].spec.blocks() != nullptr ? 1 : 0;
  part.call.pairs = {.lists = call.chosen_blocks != nullptr ? call.chosen_blocks->at(place)
                                                            : chosen_blocks({part.x.q, part.x.k}, part.call, choice),
                     .block = choice.block,
                     .by_head = true};
  part.call.groups = std::span(call.owner->listed).subspan(group, 1);
  return part;
}

RoutedGroup routed_group(const LayerCall& call, size_t group) {
  const RoutingInputs& inputs = routing_of(call);
  const AttentionLayer::Group& own = call.groups[group];
  int64_t before = 0, heads = 0;  // that have centroids
  for (size_t g = 0; g < call.groups.size(); ++g) {
    if (!has_centroids(call.groups[g])) continue;
    heads += call.groups[g].num_heads;
    if (g < group) before += call.groups[g].num_heads;
  }
  RoutedGroup out{own.spec, inputs, {}, before};
  if (!has_centroids(own)) return out;
  const at::Tensor& all = inputs.centroids;
  const int64_t clusters = own.spec.route()->clusters;
  if (!all.defined() || all.dim() != 3 || all.size(0) != heads || all.size(1) < clusters)
    throw Error(cat("attention: ", print(own.spec), " needs centroids of ", heads, " heads and ", clusters,
                    " clusters, which models learn; got ", all.defined() ? shape(all) : "none"));
  out.centroids = all.narrow(0, before, own.num_heads).narrow(1, 0, clusters);
  return out;
}

std::optional<at::Tensor> ready_output(const LayerCall& call, size_t group) {
  const RoutingInputs& inputs = routing_of(call);
  if (inputs.outputs.empty()) return std::nullopt;
  size_t place = 0;
  for (size_t g = 0; g < group; ++g) place += call.groups[g].is_routed() ? 1 : 0;
  return inputs.outputs.at(place);
}

}  // namespace fovea::ops
