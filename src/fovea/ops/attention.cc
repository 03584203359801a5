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
#include "fovea/ops/attention_norm.h"
#include "fovea/ops/given_pairs.h"
#include "fovea/ops/head_groups.h"
#include "fovea/ops/routing.h"
#include "fovea/spec/resolved_layer.h"

// fovea::attention: head groups, each through the operator fovea::attention_forward, then the norm over their heads.
namespace fovea::ops {
namespace {

// In self-attention, padding among the queries is padding among the keys, so lengths that are given for one of them
// hold for both. Otherwise positions would be counted from the end of the padding.
void share_lengths(const at::Tensor& q, const at::Tensor& k, const AttentionLayer& layer, AttentionOptions& options) {
  const bool compares =
      options.kind == AttentionKind::kCausal || (options.kind == AttentionKind::kSelf && layer.positional);
  if (!compares || q.dim() != 4 || options.q_lengths.has_value() == options.k_lengths.has_value()) return;
  if (q.sym_size(2) != k.sym_size(2)) return;
  std::optional<at::Tensor>& missing = options.q_lengths ? options.k_lengths : options.q_lengths;
  missing = options.q_lengths ? options.q_lengths : options.k_lengths;
}

// Throws an Error if a tensor is given that the mechanism does not read: it would never be learned.
void check_read(const AttentionLayer& layer, const std::string& spec, const AttentionOptions& options) {
  const std::tuple<const char*, const std::optional<at::Tensor>*, bool> all[] = {
      {"alpha", &options.alpha, layer.reads.alpha},
      {"gain", &options.gain, layer.reads.gain},
      {"gate", &options.gate, layer.reads.gate},
      {"bias", &options.bias, layer.reads.bias}};
  for (const auto& [name, given, reads] : all) {
    if (given->has_value() && !reads)
      throw Error(cat("attention: got ", name, ", which '", spec, "' does not have; leave it out"));
  }
}

at::Tensor padded_to_width(const at::Tensor& x, int64_t width) {
  const int64_t missing = width - x.sym_size(-1).guard_int(__FILE__, __LINE__);
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
  const bool plain = !q.is_nested() && !k.is_nested() && !v.is_nested();
  if (!plain || q.dim() < 3 || v.dim() != k.dim()) return {given};  // check_inputs() refuses these
  const int64_t width = q.sym_size(-1).guard_int(__FILE__, __LINE__);
  EvenInputs even{given, v.sym_size(-1).guard_int(__FILE__, __LINE__)};
  const auto rows = static_cast<size_t>(k.dim() - 1);
  const bool alike = k.sym_sizes().slice(0, rows) == v.sym_sizes().slice(0, rows) && k.sym_size(-1) == q.sym_size(-1);
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

void check_offset_terms(const OffsetTerms& given, const at::Tensor& q, const c10::SymInt& value_width) {
  // The shape is checked here, because a single head group would accept the terms of all heads.
  if (given.by_head.defined() && (given.by_head.dim() != 2 || given.by_head.sym_size(0) != q.sym_size(1))) {
    throw Error(cat("attention: offset_bias has shape ", shape(given.by_head), "; expected [", q.sym_size(1),
                    ", offsets] or q's shape with the offsets in place of D, for q of shape ", shape(q)));
  }
  const at::Tensor& values = given.values;
  if (!values.defined()) return;
  const bool fits = values.dim() == 3 && values.sym_size(0) > 0 && values.sym_size(2) == value_width &&
                    (values.sym_size(1) == 1 || values.sym_size(1) == q.sym_size(1));
  if (fits && at::isFloatingType(values.scalar_type()) && values.device() == q.device()) return;
  throw Error(cat("attention: offset_values is ", values.scalar_type(), ' ', shape(values), " on ",
                  values.device().str(), "; expected [offsets, H or 1, D] on ", q.device().str(), " for q of shape ",
                  shape(q)));
}

// out + sums . values.
at::Tensor with_offset_values(const CalledOutput& called, const OffsetTerms& terms) {
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

// Checks the inputs of all heads and completes the options. q, k and v have one width.
std::shared_ptr<const AttentionLayer> checked_layer(const CoreTensors& x, const kernels::KeySharing& keys,
                                                    const std::string& spec, AttentionOptions& options) {
  check_inputs(x, keys);
  check_options(x, options);
  auto layer = resolved_layer(spec, x.q.sym_size(1).guard_int(__FILE__, __LINE__));
  check_read(*layer, spec, options);
  share_lengths(x.q, x.k, *layer, options);
  for (const auto& [name, member] : kSequenceVectors) {
    if (std::optional<at::Tensor>& vector = options.*member) vector = vector->contiguous();
  }
  if (!options.scale) {
    options.scale = 1 / std::sqrt(static_cast<double>(x.q.sym_size(-1).guard_int(__FILE__, __LINE__)));
  }
  given_pairs(x, options.pairs);
  return layer;
}

at::Tensor output_of_group(HeadGroups& groups) {
  const HeadGroups::Inputs group = groups.next();
  if (group.is_routed) {
    const std::optional<at::Tensor> ready = groups.ready_output();
    return ready ? *ready : routed_attention(group.x, group.call, groups.routed());
  }
  const CalledOutput called = call_forward(group.x, group.call);
  return group.call.value_offsets > 0 ? with_offset_values(called, group.call.offsets) : called.out;
}

// Heads lie side by side in memory in both layouts: concatenated this way, the norm and the projection need no copy.
at::Tensor concatenated_heads(std::vector<at::Tensor> outputs) {
  if (outputs.size() == 1) return outputs[0];
  if (outputs[0].dim() == 3) return at::cat(outputs, -2);
  for (at::Tensor& x : outputs) x = x.transpose(1, 2);
  return at::cat(outputs, -2).transpose(1, 2);
}

}  // namespace

at::Tensor attention(const at::Tensor& given_q, const at::Tensor& given_k, const at::Tensor& given_v,
                     const std::string& spec, const AttentionOptions& given) {
  const kernels::KeySharing keys = key_sharing(given_q, given_k, given);
  AttentionOptions options = given;
  const auto [x, value_width] = of_one_width({given_q, given_k, given_v}, options);
  const std::shared_ptr<const AttentionLayer> layer = checked_layer(x, keys, spec, options);
  check_offset_terms(given.offsets, x.q, value_width);
  const LayerCall call{x, options, keys, *layer};
  HeadGroups groups(call);
  std::vector<at::Tensor> outputs;
  while (!groups.done()) outputs.push_back(output_of_group(groups));
  at::Tensor out = concatenated_heads(std::move(outputs));
  if (out.sym_size(-1) != value_width) out = out.narrow(-1, 0, value_width);
  return norm_over_heads(layer->norm, out, {options.gain, options.gate, options.bias});
}

at::Tensor attention_weights(const at::Tensor& q, const at::Tensor& k, const std::string& spec,
                             const AttentionOptions& given) {
  // No kind of derivative flows through these weights.
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView below;
  AttentionOptions options = given;
  options.offsets.values = at::Tensor();
  const kernels::KeySharing keys = key_sharing(q, k, options);
  const std::shared_ptr<const AttentionLayer> layer = checked_layer({q, k, k}, keys, spec, options);
  check_offset_terms(options.offsets, q, q.size(-1));
  const LayerCall call{{q, k, k}, options, keys, *layer};
  HeadGroups groups(call);
  std::vector<at::Tensor> weights;
  while (!groups.done()) {
    const HeadGroups::Inputs group = groups.next();
    weights.push_back(group.is_routed ? routed_weights(group.x, group.call, groups.routed())
                                      : core_weights(group.x, group.call));
  }
  return at::cat(weights, 1);
}

void init() {}

}  // namespace fovea::ops
