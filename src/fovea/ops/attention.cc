#include "fovea/ops/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/matmul.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <tuple>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/ops/attention_checks.h"
#include "fovea/ops/attention_layout.h"
#include "fovea/ops/attention_norm.h"
#include "fovea/ops/given_pairs.h"
#include "fovea/ops/head_groups.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/routing.h"
#include "fovea/spec/resolved_layer.h"

// Attention of a layer: its checks, its head groups, then the norm over their heads.
namespace fovea::ops {
namespace {

// In self-attention, padding among the queries is padding among the keys, so lengths that are given for one of them
// hold for both. Otherwise positions would be counted from the end of the padding.
void share_lengths(const at::Tensor& q, const at::Tensor& k, const AttentionLayer& layer, AttentionOptions& options) {
  const bool compares =
      options.kind == AttentionKind::kCausal || (options.kind == AttentionKind::kSelf && layer.positional);
  if (!compares || q.dim() != 4 || options.q_lengths.has_value() == options.k_lengths.has_value()) return;
  if (q.size(2) != k.size(2)) return;
  std::optional<at::Tensor>& missing = options.q_lengths ? options.k_lengths : options.q_lengths;
  missing = options.q_lengths ? options.q_lengths : options.k_lengths;
}

at::Tensor padded_to_width(const at::Tensor& x, int64_t width) {
  const int64_t missing = width - x.size(-1);
  return missing > 0 ? at::constant_pad_nd(x, {0, missing}) : x;
}

// q, k and v of one width: zeros behind q and k leave the scores as they are, and those behind v give zeros.
struct EvenInputs {
  CoreTensors x;
  int64_t value_width = 0;
};
// Returns the padded inputs; also pads the terms of `options` and fills in the scale of the unpadded width.
EvenInputs of_one_width(const CoreTensors& given, AttentionOptions& options) {
  const auto& [q, k, v] = given;
  if (q.dim() < 3 || v.dim() != k.dim()) return {given};  // refused by kernels::check_inputs()
  const int64_t width = q.size(-1);
  EvenInputs even{given, v.size(-1)};
  const auto rows = static_cast<size_t>(k.dim() - 1);
  const bool alike = k.sizes().slice(0, rows) == v.sizes().slice(0, rows) && k.size(-1) == q.size(-1);
  if (even.value_width == width || !alike) return even;
  if (!options.scale) options.scale = 1 / std::sqrt(static_cast<double>(width));
  options.screen = {};  // a screen has the width of the keys that were given
  const int64_t wide = std::max(width, even.value_width);
  even.x = {padded_to_width(q, wide), padded_to_width(k, wide), padded_to_width(v, wide)};
  for (at::Tensor* term : {&options.offsets.queries, &options.offsets.rows, &options.offsets.values}) {
    if (term->defined()) *term = padded_to_width(*term, wide);
  }
  return even;
}

// out + sums . values.
at::Tensor with_offset_values(const Attended& called, const OffsetTerms& terms) {
  const at::Tensor& values = terms.values;
  if (terms.product != nullptr && called.sums.dim() == 3 && values.size(1) == 1) {
    const at::Tensor all = values.select(1, 0).to(called.sums.scalar_type());
    const at::Tensor product = terms.product(called.sums.flatten(0, 1), all);
    return called.out + product.view(called.out.sizes()).to(called.out.scalar_type());
  }
  const at::Tensor rows = values.to(called.sums.scalar_type()).transpose(0, 1);  // [H or 1, count, D]
  const bool packed = called.out.dim() == 3;
  const at::Tensor product =
      packed ? at::matmul(called.sums.transpose(0, 1), rows).transpose(0, 1) : at::matmul(called.sums, rows);
  return called.out + product.to(called.out.scalar_type());
}

// The terms in the types that kernels and reference take.
void set_types(OffsetTerms& terms, const at::Tensor& q) {
  for (at::Tensor* x : {&terms.by_head, &terms.by_query}) {
    if (x->defined()) *x = x->to(term_type(q));
  }
  for (at::Tensor* x : {&terms.queries, &terms.rows}) {
    if (x->defined()) *x = x->to(q.scalar_type());
  }
}

// Returns the numbers that the transforms learn, one for each head. Calls below have them as `alpha`.
std::optional<at::Tensor> learned_numbers(const AttentionLayer& layer, const AttentionOptions& options) {
  if (!options.sinks) return options.alpha;
  if (!options.alpha) return options.sinks;
  std::vector<at::Tensor> parts;
  int64_t head = 0;
  for (const AttentionLayer::Group& group : layer.groups) {
    const at::Tensor& own = learns_sink(group.spec.transform) ? *options.sinks : *options.alpha;
    parts.push_back(own.narrow(0, head, group.num_heads).to(at::promote_types(own.scalar_type(), at::kFloat)));
    head += group.num_heads;
  }
  return at::cat(parts);
}

struct UserCall {
  AttentionLayerPointer layer;
  AttentionOptions options;
  kernels::KeySharing keys;
};

// Checks the inputs of all heads, which have one width, and completes the options.
LayerCall checked_call(const CoreTensors& x, UserCall given) {
  AttentionOptions& options = given.options;
  const AttentionLayer& layer = *given.layer;
  const kernels::QkvViews views = views_of(x);
  const kernels::LayerViews read = layer_views(options);
  kernels::check_inputs(views, given.keys);
  kernels::check_scale(options.scale, "attention");
  kernels::check_options(views, read,
                         wants_gradient({x.q, x.k, x.v, tensor_or_none(options.alpha), tensor_or_none(options.sinks)})
                             ? kernels::Graph::kRecorded
                             : kernels::Graph::kNone);
  kernels::check_read(layer, read);
  int64_t heads = 0;
  for (const AttentionLayer::Group& group : layer.groups) {
    heads += group.num_heads;
    if (group.reads_alpha) kernels::check_learned_shape(read.learned(group.spec.transform), group.spec, x.q.size(1));
  }
  if (heads != x.q.size(1))
    throw Error(cat("attention: q has ", x.q.size(1), " heads; expected ", heads, ", the layer's"));
  share_lengths(x.q, x.k, layer, options);
  for (const auto& [name, member] : kSequenceVectors) {
    if (std::optional<at::Tensor>& vector = options.*member) vector = vector->contiguous();
  }
  if (!options.scale) options.scale = 1 / std::sqrt(static_cast<double>(x.q.size(-1)));
  kernels::checked_lists(views, views_of(options.pairs));
  set_types(options.offsets, x.q);
  options.gain = options.gate = options.bias = std::nullopt;
  options.alpha = learned_numbers(layer, options), options.sinks = std::nullopt;
  LayerCall call = layer_call(std::move(options), std::move(given.layer));
  call.heads_per_key = given.keys.share;
  if (call.offsets.values.defined()) call.value_offsets = call.offsets.values.size(0);
  return call;
}

// Head groups that one call computes: a group that chooses keys by itself, of others as many as follow one another.
std::vector<GroupRange> runs_of_groups(const LayerCall& call) {
  std::vector<GroupRange> runs;
  for (size_t g = 0; g < call.groups.size(); ++g) {
    const bool goes_on = g > 0 && !call.groups[g].chooses_keys() && !call.groups[g - 1].chooses_keys();
    goes_on ? static_cast<void>(++runs.back().count) : runs.push_back({g, 1});
  }
  return runs;
}

at::Tensor output_of(const CoreTensors& x, const LayerCall& call, const GroupRange& groups) {
  if (call.groups[groups.first].is_routed()) {
    if (const std::optional<at::Tensor> ready = ready_output(call, groups.first)) return *ready;
    const CallPart part = routed_part(x, call, groups.first);
    return routed_attention(part.x, part.call, routed_group(call, groups.first));
  }
  const bool chooses = call.groups[groups.first].chooses_keys();
  const CallPart part = chooses ? chosen_part(x, call, groups.first) : part_of(x, call, groups);
  const Attended attended = attend(part.x, part.call);
  return attended.sums.defined() ? with_offset_values(attended, part.call.offsets) : attended.out;
}

// Heads lie side by side in memory in both layouts: concatenated this way, the norm and the projection need no copy.
at::Tensor concatenated_heads(std::vector<at::Tensor> outputs) {
  if (outputs.size() == 1) return outputs[0];
  if (outputs[0].dim() == 3) return at::cat(outputs, -2);
  for (at::Tensor& x : outputs) x = x.transpose(1, 2);
  return at::cat(outputs, -2).transpose(1, 2);
}

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::string& spec,
                     const AttentionOptions& options) {
  kernels::check_layout(views_of({q, k, v}));
  return attention(q, k, v, resolved_layer(spec, q.size(1)), options);
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AttentionLayerPointer layer,
                     const AttentionOptions& given) {
  kernels::check_layout(views_of({q, k, v}));
  UserCall user{std::move(layer), given, key_sharing(q, k, given)};
  const auto [x, value_width] = of_one_width({q, k, v}, user.options);
  const LayerCall call = checked_call(x, std::move(user));
  kernels::check_layer_terms(view_of(x.q), term_views(given.offsets), view_of_defined(given.offsets.values),
                             value_width);
  if (value_width != q.size(-1) && std::ranges::any_of(call.groups, &AttentionLayer::Group::is_routed)) {
    throw Error(cat("attention: v is ", value_width, " wide and q ", q.size(-1), "; expected one width for '",
                    call.owner->text, "', which normalises q and k"));
  }
  std::vector<at::Tensor> outputs;
  for (const GroupRange& groups : runs_of_groups(call)) outputs.push_back(output_of(x, call, groups));
  at::Tensor out = concatenated_heads(std::move(outputs));
  if (out.size(-1) != value_width) out = out.narrow(-1, 0, value_width);
  return norm_over_heads(call.owner->norm, out, {given.gain, given.gate, given.bias});
}

at::Tensor attention_weights(const at::Tensor& q, const at::Tensor& k, const std::string& spec,
                             const AttentionOptions& options) {
  kernels::check_layout(views_of({q, k, k}));
  return attention_weights(q, k, resolved_layer(spec, q.size(1)), options);
}

at::Tensor attention_weights(const at::Tensor& q, const at::Tensor& k, AttentionLayerPointer layer,
                             const AttentionOptions& given) {
  // No kind of derivative flows through these weights.
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView below;
  kernels::check_layout(views_of({q, k, k}));
  UserCall user{std::move(layer), given, key_sharing(q, k, given)};
  user.options.offsets.values = at::Tensor();
  const LayerCall call = checked_call({q, k, k}, std::move(user));
  kernels::check_layer_terms(view_of(q), term_views(call.offsets), std::nullopt, q.size(-1));
  std::vector<at::Tensor> weights;
  for (size_t g = 0; g < call.groups.size(); ++g) {
    if (call.groups[g].is_routed()) {
      const CallPart part = routed_part({q, k, k}, call, g);
      weights.push_back(routed_weights(part.x, part.call, routed_group(call, g)));
      continue;
    }
    const bool chooses = call.groups[g].chooses_keys();
    const CallPart part = chooses ? chosen_part({q, k, k}, call, g) : part_of({q, k, k}, call, {g, 1});
    weights.push_back(layer_weights(part.x, part.call));
  }
  return weights.size() == 1 ? weights[0] : at::cat(weights, 1);
}

}  // namespace fovea::ops
