#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "fovea/kernels/call/schemas.h"
#include "fovea/ops/attention.h"
#include "fovea/ops/attention_lists.h"
#include "fovea/ops/given_pairs.h"
#include "fovea/spec/description.h"

// The operators that users call through torch.ops: fovea::attention, and functions that describe specs.
namespace fovea::ops {
namespace {

// The arguments of both operators. The fields here have another form in a call.
struct UserCall : GroupCall {
  at::Tensor q, k, v;
  std::string text;  // the spec of the layer
  at::Tensor offset_bias;
  int64_t offset_first = 0;
  NamedLists named;
};
constexpr std::array kUserInputs{
    call_input<&UserCall::q>("q"),
    call_input<&UserCall::k>("k"),
    call_input<&UserCall::v>("v"),
    call_input<&UserCall::text>("spec"),
    call_input<&UserCall::offset_bias>("offset_bias"),
    call_input<&UserCall::offset_first>("offset_first"),
    call_input<&UserCall::named, &NamedLists::indices>("indices"),
    call_input<&UserCall::named, &NamedLists::block_indices>("block_indices"),
    call_input<&UserCall::named, &NamedLists::block_size>("block_size"),
};

// Finds the input of each argument of a schema by its name.
std::vector<const CallInput*> inputs_of(const c10::FunctionSchema& schema) {
  std::map<std::string_view, const CallInput*> by_name;
  const auto add = [&](const auto& inputs) {
    for (const CallInput& input : inputs) by_name.emplace(input.name, &input);
  };
  add(kUserInputs), add(kLayerInputs), add(kTerms), add(kOffsets), add(kLayout), add(kStream);
  std::vector<const CallInput*> all;
  for (const c10::Argument& argument : schema.arguments()) all.push_back(by_name.at(argument.name()));
  return all;
}

// Replaces the arguments on the stack with the result.
template <at::Tensor (*kRun)(const UserCall&)>
void run_user_call(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  static const std::vector<const CallInput*> kInputs = inputs_of(op.schema());
  UserCall call;
  const auto arguments = torch::jit::last(*stack, kInputs.size());
  for (size_t i = 0; i < kInputs.size(); ++i) kInputs[i]->set(call, arguments[i]);
  // By head if it has two dimensions, else by query.
  const bool by_head = call.offset_bias.defined() && call.offset_bias.dim() == 2;
  (by_head ? call.offsets.by_head : call.offsets.by_query) = call.offset_bias;
  (by_head ? call.offsets.by_head_first : call.offsets.by_query_first) = call.offset_first;
  call.pairs = pair_lists(call.named);
  at::Tensor result = kRun(call);
  torch::jit::drop(*stack, kInputs.size());
  torch::jit::push(*stack, std::move(result));
}
at::Tensor attention_op(const UserCall& call) { return attention(call.q, call.k, call.v, call.text, call); }
at::Tensor weights_op(const UserCall& call) { return attention_weights(call.q, call.k, call.text, call); }

// Under autocast q, k and v, the tensors that lead the arguments, become the region's type, as those of PyTorch's own
// attention do.
void autocast(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const size_t count = op.schema().arguments().size();
  for (size_t i = 0; i < count; ++i) {
    c10::IValue& argument = torch::jit::peek(*stack, i, count);
    if (!argument.isTensor()) break;
    const c10::DeviceType device = argument.toTensor().device().type();
    argument = at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), argument.toTensor(), device);
  }
  op.callBoxed(stack);
}

std::string parse_op(std::string_view spec, std::optional<int64_t> num_heads) {
  return canonical_layer(spec, num_heads);
}

std::tuple<double, double> alpha_range_op() { return {kLeastAlpha, kGreatestAlpha}; }

}  // namespace

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  using torch::CppFunction;
  m.def(schemas::kAttention, {at::Tag::pt2_compliant_tag});
  m.impl("attention", torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd,
                                      CppFunction::makeFromBoxedFunction<&run_user_call<&attention_op>>()));
  m.def(schemas::kAttentionWeights);
  // Reads data, so that compilers have to take it whole; not differentiable. Python gives its fake.
  m.impl("attention_weights", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd,
                                              CppFunction::makeFromBoxedFunction<&run_user_call<&weights_op>>()));
  m.impl("attention_weights", torch::dispatch(c10::DispatchKey::Autograd, CppFunction::makeFallthrough()));
  for (const c10::DispatchKey key : {c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA}) {
    m.impl("attention", torch::dispatch(key, CppFunction::makeFromBoxedFunction<&autocast>()));
    m.impl("attention_weights", torch::dispatch(key, CppFunction::makeFromBoxedFunction<&autocast>()));
  }
  m.def(schemas::kParse, TORCH_FN(parse_op));
  m.def(schemas::kParameters, TORCH_FN(parameter_names));
  m.def(schemas::kProperties, TORCH_FN(property_names));
  m.def(schemas::kAlphaRange, TORCH_FN(alpha_range_op));
  m.def(schemas::kSpecNames, TORCH_FN(spec_name_lines));
}

}  // namespace fovea::ops
