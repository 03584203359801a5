#include <c10/core/DispatchKey.h>
#include <torch/library.h>

#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "fovea/kernels/call/schemas.h"
#include "fovea/ops/attention_core.h"
#include "fovea/ops/attention_lists.h"
#include "fovea/ops/attention_operators.h"
#include "fovea/ops/kernel_tensors.h"

// Registers the operators of attention_operators.h for any device, Meta and Autograd.
namespace fovea::ops {
namespace {

using c10::SymInt;

using ForwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using ForwardArguments = std::tuple<const at::Tensor&, const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                                    const OptionalTensors&, at::IntArrayRef, const OptionalTensors&, std::string_view,
                                    std::string_view, double, double, at::IntArrayRef, SymInt, bool>;
using BackwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, std::vector<at::Tensor>>;
using BackwardArguments =
    std::tuple<const at::Tensor&, const OptionalTensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
               const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const OptionalTensor&,
               const OptionalTensors&, at::IntArrayRef, int64_t, const OptionalTensors&, std::string_view,
               std::string_view, double, double, at::IntArrayRef, SymInt>;

ForwardCall call_of(const ForwardArguments& arguments) {
  const auto& [q, k, v, alpha, terms, offsets, layout, spec, kind, scale, dropout, stream, dropout_seed, training] =
      arguments;
  const CallLists lists(ListViews{terms, offsets, layout, stream});
  return {{q, k, v},
          {alpha, lists, spec, kind, scale, dropout, dropout_seed},
          training ? Phase::kTraining : Phase::kInference};
}
ForwardResult result_of(const CoreOutput& output) { return {output.out, output.stats, output.kept, output.sums}; }

// The schema has the wanted gradients of terms as an integer, one bit per term.
WantedTerms wanted_of(int64_t bits) {
  WantedTerms wanted{};
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = (bits >> i & 1) != 0;
  return wanted;
}
int64_t bits_of(const WantedTerms& wanted) {
  int64_t bits = 0;
  for (size_t i = 0; i < wanted.size(); ++i) bits |= int64_t{wanted[i]} << i;
  return bits;
}

BackwardCall call_of(const BackwardArguments& arguments) {
  const auto& [grad_out, grad_sums, q, k, v, out, stats, kept, sums, alpha, terms, offsets, wanted, layout, spec, kind,
               scale, dropout, stream, dropout_seed] = arguments;
  auto [x, inputs, phase] = call_of(ForwardArguments(q, k, v, alpha, terms, offsets, layout, spec, kind, scale, dropout,
                                                     stream, dropout_seed, /*training=*/true));
  return {{grad_out, tensor_or_none(grad_sums)},
          std::move(x),
          {out, stats, kept, sums},
          std::move(inputs),
          wanted_of(wanted)};
}
BackwardResult result_of(const CoreGradients& grads) {
  const auto& [by_head, by_query, queries, rows] = grads.terms;
  return {grads.q, grads.k, grads.v, grads.alpha, {by_head, by_query, queries, rows}};
}

// Wraps a function of a call for the dispatcher, which passes the arguments one by one.
template <class Result, class Arguments>
struct Operator;
template <class Result, class... Argument>
struct Operator<Result, std::tuple<Argument...>> {
  using Function = Result(Argument...);
  template <auto* kRun>
  static Result run(Argument... arguments) {
    return result_of(kRun(call_of(std::tuple<Argument...>(std::forward<Argument>(arguments)...))));
  }
};
using Forward = Operator<ForwardResult, ForwardArguments>;
using Backward = Operator<BackwardResult, BackwardArguments>;

CoreOutput attention_forward(const ForwardCall& call) {
  return core_forward(call.x, group_call(call.inputs, call.x.q), call.phase);
}
CoreOutput attention_forward_meta(const ForwardCall& call) {
  return meta_forward(call.x, group_call(call.inputs, call.x.q), call.phase);
}
CoreGradients attention_backward(const BackwardCall& call) {
  return core_backward(call.cotangents, call.x, call.saved, group_call(call.inputs, call.x.q), call.wanted);
}
CoreGradients attention_backward_meta(const BackwardCall& call) {
  return meta_backward(call.x, group_call(call.inputs, call.x.q), call.wanted);
}

}  // namespace

GroupCall group_call(const OperatorInputs& inputs, const at::Tensor& q) {
  GroupCall call;
  call.alpha = inputs.alpha, call.spec = inputs.spec, call.kind = parse_kind(inputs.kind);
  call.scale = inputs.scale, call.dropout = inputs.dropout, call.dropout_seed = inputs.dropout_seed;
  set_lists(call, q, inputs.lists);
  return call;
}

CoreOutput call_operator(const CoreTensors& x, const OperatorInputs& inputs, Phase phase) {
  static const auto kOperator =
      c10::Dispatcher::singleton().findSchemaOrThrow("fovea::attention_forward", "").typed<Forward::Function>();
  const auto& [alpha, lists, spec, kind, scale, dropout, dropout_seed] = inputs;
  auto [out, stats, kept, sums] =
      kOperator.call(x.q, x.k, x.v, alpha, lists.terms, lists.offsets, lists.layout, spec, kind, scale, dropout,
                     lists.stream, dropout_seed, phase == Phase::kTraining);
  return {std::move(out), std::move(stats), std::move(kept), std::move(sums)};
}

CoreGradients call_operator(const BackwardCall& call) {
  static const auto kOperator =
      c10::Dispatcher::singleton().findSchemaOrThrow("fovea::attention_backward", "").typed<Backward::Function>();
  const auto& [cotangents, x, saved, inputs, wanted] = call;
  const auto& [alpha, lists, spec, kind, scale, dropout, dropout_seed] = inputs;
  auto [grad_q, grad_k, grad_v, grad_alpha, grad_terms] =
      kOperator.call(cotangents.out, some_or_none(cotangents.sums), x.q, x.k, x.v, saved.out, saved.stats, saved.kept,
                     saved.sums, alpha, lists.terms, lists.offsets, bits_of(wanted), lists.layout, spec, kind, scale,
                     dropout, lists.stream, dropout_seed);
  return {grad_q, grad_k, grad_v, grad_alpha, {grad_terms[0], grad_terms[1], grad_terms[2], grad_terms[3]}};
}

CalledOutput call_forward(const CoreTensors& x, const GroupCall& call) {
  const OperatorInputs inputs{call.alpha,   CallLists(call),  call.spec, name_of(call.kind), call.scale.value_or(1),
                              call.dropout, call.dropout_seed};
  CoreOutput output = call_operator(x, inputs, Phase::kInference);
  return {std::move(output.out), std::move(output.sums)};
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(schemas::kAttentionForward, {at::Tag::pt2_compliant_tag});
  m.def(schemas::kAttentionBackward, {at::Tag::pt2_compliant_tag});
  using c10::DispatchKey::Autograd, c10::DispatchKey::Meta;
  constexpr c10::DispatchKey kAnyDevice = c10::DispatchKey::CompositeExplicitAutograd;
  m.impl("attention_forward", torch::dispatch(kAnyDevice, TORCH_FN(Forward::run<&attention_forward>)));
  m.impl("attention_backward", torch::dispatch(kAnyDevice, TORCH_FN(Backward::run<&attention_backward>)));
  m.impl("attention_forward", torch::dispatch(Meta, TORCH_FN(Forward::run<&attention_forward_meta>)));
  m.impl("attention_backward", torch::dispatch(Meta, TORCH_FN(Backward::run<&attention_backward_meta>)));
  m.impl("attention_forward", torch::dispatch(Autograd, TORCH_FN(Forward::run<&attention_forward_autograd>)));
  m.impl("attention_backward", torch::dispatch(Autograd, TORCH_FN(Backward::run<&attention_backward_autograd>)));
}

}  // namespace fovea::ops
