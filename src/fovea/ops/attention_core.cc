#include "fovea/ops/attention_core.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <optional>
#include <utility>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/kernels/call/groups.h"
#include "fovea/ops/attention_checks.h"
#include "fovea/ops/attention_kernel.h"
#include "fovea/ops/attention_layout.h"
#include "fovea/ops/given_pairs.h"
#include "fovea/ops/head_groups.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/key_screen.h"
#include "fovea/ops/no_autocast.h"
#include "fovea/ops/recycled.h"
#include "fovea/ops/reference.h"

namespace fovea::ops {
namespace {

using kernels::GroupedCall;

// The call for kernels/call; `alpha` is in float.
kernels::CoreCall core_of(const CoreTensors& x, const LayerCall& call, const at::Tensor& alpha) {
  const OffsetTerms& terms = call.offsets;
  kernels::CoreCall core{.x = views_of(x),
                         .alpha = view_of_defined(alpha),
                         .terms = term_views(terms),
                         .pairs = views_of(call.pairs),
                         .vectors = vectors_of(call),
                         .kind = call.kind,
                         .keys = call.keys(),
                         .dropout = call.dropout};
  core.offsets = {.by_head = {terms.by_head_first, 0},
                  .by_query = {terms.by_query_first, 0},
                  .product = {terms.rows_first, 0},
                  .sums = {terms.values_first, call.value_offsets}};
  return core;
}

// Values of other devices are not read.
at::Tensor readable_alpha(const LayerCall& call) {
  if (!call.alpha) return {};
  const bool reads = call.alpha->is_cpu() && at::isFloatingType(call.alpha->scalar_type());
  return reads ? call.alpha->to(at::kFloat).contiguous() : *call.alpha;
}

TokenCall token_call(const CoreTensors& x, const LayerCall& call, Phase phase) {
  const at::Tensor alpha = readable_alpha(call);
  const kernels::CoreCall core = core_of(x, call, alpha);
  TokenCall out;
  out.problem = kernels::problem_of(core, call.groups, phase);
  out.key_tokens = kernels::read_key_tokens(kernels::sizes_of(core.x.q, core.x.k), core.vectors);
  if (out.problem.given.any()) out.given = given_lists(call.pairs.lists, out.problem, x.q.dim() == 3);
  const int64_t dropout_seed = call.drawn_seed ? call.drawn_seed->item<int64_t>() : call.dropout_seed;
  out.random = {static_cast<uint64_t>(call.seed), static_cast<uint64_t>(dropout_seed), call.layer, call.first_head};
  out.q = token_rows(x.q), out.k = token_rows(x.k), out.v = token_rows(x.v);
  if (call.alpha) out.alpha = *call.alpha;
  out.scale = call.scale.value_or(1);
  out.screen = checked_screen(x.k, call);
  out.terms = call.offsets;
  if (out.terms.by_query.defined()) out.terms.by_query = token_rows(out.terms.by_query);
  if (out.terms.queries.defined()) out.terms.queries = token_rows(out.terms.queries);
  return out;
}

// The call of a head group as the reference takes it: it reads keys in their order.
TokenCall reference_call(const CoreTensors& x, const LayerCall& call, Phase phase) {
  TokenCall out = token_call(x, call, phase);
  if (!call.k_tokens) return out;
  const at::Tensor tokens = call.k_tokens->to(out.k.device());
  out.k = out.k.index_select(0, tokens), out.v = out.v.index_select(0, tokens);
  return out;
}

GroupedCall groups_of(const LayerCall& call, const TokenCall& tokens) {
  return kernels::grouped_call(call.groups, tokens.problem, tokens.q.size(0),
                               /*terms_for_spans=*/call.offsets.for_spans);
}

// The kernels of the call; none if it is the reference's. Every kernel refuses float64, aloud where FOVEA_KERNEL names
// it.
std::optional<kernels::GroupKernels> kernels_of(const TokenCall& tokens, const GroupedCall& groups) {
  const at::ScalarType type = tokens.q.scalar_type();
  const bool has_dtype = type == at::kFloat || type == at::kBFloat16 || type == at::kDouble;
  if (!tokens.q.device().is_cpu() || !has_dtype) return std::nullopt;
  kernels::GroupKernels kernels(groups);
  return kernels.take() ? std::optional(std::move(kernels)) : std::nullopt;
}

SavedTensors saved_buffers(const GroupedCall& groups, const at::Tensor& q) {
  const auto buffer = [&](int64_t count, at::ScalarType type) { return recycled({count}, q.options().dtype(type)); };
  if (groups.saved.floats == 0 && groups.saved.ints == 0) return {};
  return {buffer(groups.saved.floats, at::kFloat), buffer(groups.saved.ints, at::kInt)};
}

// Joins the heads of groups, side by side in memory in both layouts.
at::Tensor joined(const std::vector<at::Tensor>& heads) { return heads.size() == 1 ? heads[0] : at::cat(heads, 1); }

TokenOutput forward_by_reference(const CoreTensors& x, const LayerCall& call) {
  std::vector<at::Tensor> outs, sums;
  for (size_t g = 0; g < call.groups.size(); ++g) {
    const CallPart part = part_of(x, call, {g, 1});
    const TokenOutput own = reference_forward(reference_call(part.x, part.call, Phase::kInference));
    outs.push_back(own.out);
    if (own.sums.defined()) sums.push_back(own.sums);
  }
  return {joined(outs), sums.empty() ? at::Tensor() : joined(sums)};
}

// Adds a group's gradient to that of all heads, at [first, first + count) of dimension `dim`.
void add_part(const at::Tensor& to, const at::Tensor& grad, int64_t dim, int64_t first) {
  if (to.defined() && grad.defined())
    to.narrow(dim, to.size(dim) == grad.size(dim) ? 0 : first, grad.size(dim)).add_(grad);
}

TokenGradients backward_by_reference(const CoreTensors& x, const LayerCall& call, const GroupedCall& groups,
                                     const TokenCall& tokens, const TokenCotangents& given, const WantedTerms& wanted) {
  if (call.groups.size() == 1) return reference_backward(tokens, given, wanted);
  const auto zeros = [](const at::Tensor& like) { return like.defined() ? at::zeros_like(like) : like; };
  TokenGradients all{zeros(tokens.q), zeros(tokens.k), zeros(tokens.v), zeros(tokens.alpha), {}};
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) all.terms.*kTermTensors[i] = zeros(tokens.terms.*kTermTensors[i]);
  }
  for (size_t g = 0; g < call.groups.size(); ++g) {
    const kernels::GroupProblem& group = groups.groups[g];
    const int64_t head = group.first_head, key_head = group.first_key_head;
    const auto own_heads = [&](const at::Tensor& rows) {
      return rows.defined() ? rows.narrow(1, head, group.problem.num_heads) : rows;
    };
    const CallPart part = part_of(x, call, {g, 1});
    const TokenGradients own = reference_backward(reference_call(part.x, part.call, Phase::kTraining),
                                                  {own_heads(given.out), own_heads(given.sums)}, wanted);
    add_part(all.q, own.q, 1, head), add_part(all.k, own.k, 1, key_head), add_part(all.v, own.v, 1, key_head);
    add_part(all.alpha, own.alpha, 0, head), add_part(all.terms.by_head, own.terms.by_head, 0, head);
    add_part(all.terms.by_query, own.terms.by_query, 1, head), add_part(all.terms.queries, own.terms.queries, 1, head);
    add_part(all.terms.rows, own.terms.rows, 1, head);
  }
  return all;
}

}  // namespace

LayerCall layer_call(AttentionOptions options, AttentionLayerPointer layer) {
  LayerCall call;
  static_cast<AttentionOptions&>(call) = std::move(options);
  call.owner = std::move(layer);
  call.groups = call.owner->groups;
  return call;
}

LayerOutput layer_forward(const CoreTensors& x, const LayerCall& call, Phase phase) {
  const NoAutocast guard;
  const TokenCall tokens = token_call(x, call, phase);
  const GroupedCall groups = groups_of(call, tokens);
  const std::optional<kernels::GroupKernels> kernels = kernels_of(tokens, groups);
  const SavedTensors saved = kernels ? saved_buffers(groups, x.q) : SavedTensors();
  const TokenOutput output =
      kernels ? kernel_forward({groups, *kernels, tokens}, saved) : forward_by_reference(x, call);
  return {from_token_rows(output.out, x.q), output.sums.defined() ? from_token_rows(output.sums, x.q) : output.sums,
          saved};
}

LayerGradients layer_backward(const LayerCotangents& cotangents, const CoreTensors& x, const LayerOutput& output,
                              const LayerCall& call, const WantedTerms& wanted) {
  const NoAutocast guard;
  kernels::check_differentiable(vectors_of(call));
  const TokenCall tokens = token_call(x, call, Phase::kTraining);
  const GroupedCall groups = groups_of(call, tokens);
  const TokenCotangents given{token_rows(cotangents.out),
                              cotangents.sums.defined() ? token_rows(cotangents.sums) : cotangents.sums};
  const std::optional<kernels::GroupKernels> kernels = kernels_of(tokens, groups);
  TokenGradients grads = kernels ? kernel_backward({groups, *kernels, tokens}, output, given, wanted)
                                 : backward_by_reference(x, call, groups, tokens, given, wanted);
  if (grads.terms.by_query.defined()) grads.terms.by_query = from_token_rows(grads.terms.by_query, x.q);
  if (grads.terms.queries.defined()) grads.terms.queries = from_token_rows(grads.terms.queries, x.q);
  return {from_token_rows(grads.q, x.q), from_token_rows(grads.k, x.k), from_token_rows(grads.v, x.v), grads.alpha,
          grads.terms};
}

at::Tensor layer_weights(const CoreTensors& x, const LayerCall& call) {
  const NoAutocast guard;
  std::vector<at::Tensor> weights;
  for (size_t g = 0; g < call.groups.size(); ++g) {
    const CallPart part = part_of(x, call, {g, 1});
    const TokenCall tokens = reference_call(part.x, part.call, Phase::kInference);
    kernels::check_group(tokens.problem);
    if (tokens.problem.sequences.empty() && x.q.dim() == 4) {  // no lengths to take the greatest of
      return at::empty({0, x.q.size(1), x.q.size(2), x.k.size(2)}, x.q.options());
    }
    weights.push_back(reference_weights(tokens));
  }
  return weights.size() == 1 ? weights[0] : at::cat(weights, 1);
}

}  // namespace fovea::ops
