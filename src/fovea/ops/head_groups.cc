#include "fovea/ops/head_groups.h"

#include <ATen/ops/stack.h>

#include "fovea/base/strings.h"
#include "fovea/ops/attention_checks.h"

namespace fovea::ops {
namespace {

// Splits once, because the gradient of one split is one concatenation.
std::vector<at::Tensor> split_heads(const at::Tensor& x, const AttentionLayer& layer) {
  if (layer.groups.size() == 1) return {x};
  std::vector<int64_t> sizes;
  for (const AttentionLayer::Group& group : layer.groups) sizes.push_back(group.num_heads);
  return x.split_with_sizes(sizes, 1);
}

// Routed heads gather rows head by head, so they need a head of k and v for each head of q.
void repeat_key_heads(CoreTensors& x, GroupCall& call) {
  const int64_t share = call.heads_per_key;
  if (share == 1) return;
  const kernels::KeySharing keys{share, call.first_head % share};
  std::vector<at::Tensor> k, v;
  for (int64_t h = 0; h < x.q.size(1); ++h) {
    k.push_back(x.k.select(1, keys.key_head(h)));
    v.push_back(x.v.select(1, keys.key_head(h)));
  }
  x.k = at::stack(k, 1), x.v = at::stack(v, 1);
  call.heads_per_key = 1;
}

// Cuts a term to the offsets that the keys of an adaptive span can have, so that a short span costs only what it sees.
// `dim` is the term's dimension of offsets.
void cut_term(int64_t span, int64_t dim, at::Tensor& term, int64_t& first) {
  if (!term.defined()) return;
  const kernels::OffsetRange all = {first, term.sym_size(dim).guard_int(__FILE__, __LINE__)};
  const int64_t begin = all.index(-span), count = all.index(-1) + 1 - begin;
  term = term.narrow(dim, begin, count);
  first += begin;
}

const RoutingInputs& routing_of(const AttentionOptions& options) {
  static const RoutingInputs kNone;
  return options.routing != nullptr ? *options.routing : kNone;
}

}  // namespace

kernels::KeySharing key_sharing(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options) {
  if (!options.enable_gqa || q.is_nested() || k.is_nested() || q.dim() < 3 || k.dim() != q.dim()) return {};
  const int64_t heads = q.sym_size(1).guard_int(__FILE__, __LINE__);
  const int64_t of_keys = k.sym_size(1).guard_int(__FILE__, __LINE__);
  if (heads == of_keys) return {};
  if (of_keys < 1 || heads % of_keys != 0) {
    throw Error(cat("attention: q has ", heads, " heads and k ", of_keys,
                    "; with enable_gqa expected a number of heads of k that divides that of q"));
  }
  return {.share = heads / of_keys};
}

HeadGroups::HeadGroups(const LayerCall& call)
    : call_(call), routing_(routing_of(call.options)), queries_(split_heads(call.x.q, call.layer)) {
  // Query heads of two neighbouring groups may share a head of keys, so shared keys are cut group by group.
  if (call.layer.groups.size() == 1 || call.keys.share == 1) {
    keys_ = split_heads(call.x.k, call.layer), values_ = split_heads(call.x.v, call.layer);
  }
  for (const AttentionLayer::Group& group : call.layer.groups) {
    if (group.routed && group.routed->route()->has_centroids()) centroid_heads_ += group.num_heads;
  }
}

HeadGroups::Inputs HeadGroups::next() {
  const AttentionLayer::Group& group = call_.layer.groups.at(next_);
  Inputs inputs{
      {queries_[next_], own_keys(call_.x.k, keys_, group.num_heads), own_keys(call_.x.v, values_, group.num_heads)},
      {call_.options},
      group.routed.has_value()};
  GroupCall& call = inputs.call;
  call.spec = group.spec, call.first_head = first_head_, call.heads_per_key = call_.keys.share;
  call.gain = call.gate = call.bias = std::nullopt;
  call.alpha = alpha_of(group);
  call.offsets = terms_of(group);
  if (const at::Tensor& values = call.offsets.values; values.defined()) {
    call.value_offsets = values.sym_size(0).guard_int(__FILE__, __LINE__);
  }
  call.pairs = pairs_of(group);
  if (KeyScreen& screen = call.screen; screen.rows.defined()) {
    screen.rows = key_heads(screen.rows, group.num_heads), screen.steps = key_heads(screen.steps, group.num_heads);
    screen.extents = key_heads(screen.extents.t(), group.num_heads).t();
  }
  if (group.routed) repeat_key_heads(inputs.x, call);
  ++next_, first_head_ += group.num_heads;
  return inputs;
}

// The heads of k or v that `count` heads of q read.
at::Tensor HeadGroups::key_heads(const at::Tensor& x, int64_t count) const {
  const int64_t begin = call_.keys.key_head(first_head_);
  return x.narrow(1, begin, call_.keys.key_head(first_head_ + count - 1) + 1 - begin);
}

at::Tensor HeadGroups::own_keys(const at::Tensor& x, const std::vector<at::Tensor>& parts, int64_t count) const {
  return parts.empty() ? key_heads(x, count) : parts[next_];
}

std::optional<at::Tensor> HeadGroups::alpha_of(const AttentionLayer::Group& group) const {
  if (!group.reads_alpha) return std::nullopt;
  const std::optional<at::Tensor>& alpha = call_.options.alpha;
  const int64_t num_heads = call_.x.q.sym_size(1).guard_int(__FILE__, __LINE__);
  if (!alpha || alpha->dim() != 1 || alpha->size(0) != num_heads) {
    throw Error(cat("attention: ", group.spec, " needs alpha of shape [", num_heads, "], a value a head; got ",
                    alpha ? shape(*alpha) : "none"));
  }
  return alpha->narrow(0, first_head_, group.num_heads);
}

// The group's terms in the types that the operator takes. Routed heads have no terms, because a cluster does not keep
// the offsets of its sequence.
OffsetTerms HeadGroups::terms_of(const AttentionLayer::Group& group) const {
  const OffsetTerms& given = call_.options.offsets;
  const at::Tensor& q = call_.x.q;
  if (group.routed || (group.span == 0 && given.for_spans)) return {};
  const auto narrow = [&](at::Tensor& x, int64_t dim, at::ScalarType type) {
    if (!x.defined()) return;
    const bool has_heads = x.dim() > dim && x.sym_size(dim) == q.sym_size(1) && q.sym_size(1) != group.num_heads;
    x = (has_heads ? x.narrow(dim, first_head_, group.num_heads) : x).to(type);
  };
  OffsetTerms own = given;
  narrow(own.by_head, 0, term_type(q)), narrow(own.by_query, 1, term_type(q));
  narrow(own.queries, 1, q.scalar_type()), narrow(own.rows, 1, q.scalar_type());
  if (own.values.defined()) narrow(own.values, 1, own.values.scalar_type());
  if (group.span == 0) return own;
  cut_term(group.span, 1, own.by_head, own.by_head_first);
  cut_term(group.span, 0, own.rows, own.rows_first);
  return own;
}

PairLists HeadGroups::pairs_of(const AttentionLayer::Group& group) const {
  PairLists own = call_.options.pairs;
  if (!own.lists.defined()) return own;
  if (group.routed) {
    throw Error(
        cat("attention: indices and '", group.spec, "' both choose the keys of a query; leave one of them out"));
  }
  if (own.by_key_head) own.lists = key_heads(own.lists, group.num_heads);
  return own;
}

std::optional<at::Tensor> HeadGroups::ready_output() {
  if (routing_.outputs.empty()) return std::nullopt;
  return routing_.outputs.at(next_output_++);
}

RoutedGroup HeadGroups::routed() {
  const AttentionLayer::Group& group = call_.layer.groups.at(next_ - 1);
  RoutedGroup own{*group.routed, routing_, {}, next_centroid_};
  if (!group.routed->route()->has_centroids()) return own;
  const at::Tensor& all = routing_.centroids;
  const int64_t clusters = group.routed->route()->clusters;
  if (!all.defined() || all.dim() != 3 || all.size(0) != centroid_heads_ || all.size(1) < clusters)
    throw Error(cat("attention: ", group.spec, " needs centroids of ", centroid_heads_, " heads and ", clusters,
                    " clusters, which models learn; got ", all.defined() ? shape(all) : "none"));
  own.centroids = all.narrow(0, next_centroid_, group.num_heads).narrow(1, 0, clusters);
  next_centroid_ += group.num_heads;
  return own;
}

}  // namespace fovea::ops
