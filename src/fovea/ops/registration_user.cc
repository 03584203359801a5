#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/ops/attention.h"
#include "fovea/ops/attention_lists.h"
#include "fovea/ops/given_pairs.h"
#include "fovea/spec/attention_parameters.h"

// The operators that users call through torch.ops: fovea::attention, and functions that describe specs.
namespace fovea::ops {
namespace {

// An argument has the name of its input in attention_lists.h or in kUserInputs.
constexpr const char* kAttentionSchema =
    "attention(Tensor q, Tensor k, Tensor v, str spec='full', *, str kind='self', Tensor? q_offsets=None, "
    "Tensor? k_offsets=None, Tensor? k_begins=None, Tensor? k_tokens=None, Tensor? q_lengths=None, "
    "Tensor? k_lengths=None, Tensor? alpha=None, Tensor? gain=None, Tensor? gate=None, Tensor? bias=None, "
    "float? scale=None, float dropout=0., int seed=0, int layer=0, SymInt dropout_seed=0, Tensor? drawn_seed=None, "
    "Tensor? offset_bias=None, int offset_first=0, Tensor? offset_queries=None, Tensor? offset_rows=None, "
    "int offset_rows_first=0, Tensor? offset_values=None, int offset_values_first=0, bool enable_gqa=False, "
    "Tensor? indices=None, Tensor? block_indices=None, int block_size=128) -> Tensor";
constexpr const char* kWeightsSchema =
    "attention_weights(Tensor q, Tensor k, str spec='full', *, str kind='self', Tensor? q_offsets=None, "
    "Tensor? k_offsets=None, Tensor? k_begins=None, Tensor? k_tokens=None, Tensor? q_lengths=None, "
    "Tensor? k_lengths=None, Tensor? alpha=None, float? scale=None, int seed=0, int layer=0, "
    "Tensor? offset_bias=None, int offset_first=0, Tensor? offset_queries=None, Tensor? offset_rows=None, "
    "int offset_rows_first=0, bool enable_gqa=False, Tensor? indices=None, Tensor? block_indices=None, "
    "int block_size=128) -> Tensor";

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
  const LayerSpec layer = parse_layer_spec(spec);
  if (num_heads) resolve(layer, *num_heads);  // an Error where the groups do not have so many
  return print(layer);
}

// The names among gain, gate, bias and alpha that a layer of this spec has as parameters.
std::vector<std::string> parameters_op(std::string_view text) {
  const AttentionParameters reads = parameters_of(parse_layer_spec(text));
  std::vector<std::string> names;
  if (reads.gain) names.emplace_back("gain");
  if (reads.gate) names.emplace_back("gate");
  if (reads.bias) names.emplace_back("bias");
  if (reads.alpha) names.emplace_back("alpha");
  return names;
}

// The properties of a layer of this spec, other than its parameters.
//     positional    compares positions of queries and keys: self-attention only
//     seed          draws pairs from (seed, layer, head)
//     selection     selects among the candidates
//     pointwise     a weight is a function of its own score alone, in all heads
//     norm          has a norm of the concatenated heads
//     span          some head has an adaptive span, whose mask the caller gives
//     clauses       some head attends within clauses of a text, which operators do not know
//     centroids     some head is routed by centroids, which models learn
//     uniform_gain  its gain starts uniform in +-sqrt(3 / width), not at one
std::vector<std::string> properties_op(std::string_view text) {
  const LayerSpec layer = parse_layer_spec(text);
  const Norm& norm = layer.front().spec.norm;
  const auto selects = [](const HeadGroup& group) { return group.spec.select.has_value(); };
  const auto spans = [](const HeadGroup& group) { return adaptive_span(group.spec) != nullptr; };
  const auto has_clauses = [](const HeadGroup& group) { return group.spec.clauses() != nullptr; };
  const auto has_centroids = [](const HeadGroup& group) {
    return group.spec.route() != nullptr && group.spec.route()->has_centroids();
  };
  const auto is_by_score = [](const HeadGroup& group) { return is_pointwise(group.spec.transform); };
  std::vector<std::string> names;
  const auto add_if = [&](bool holds, const char* name) {
    if (holds) names.emplace_back(name);
  };
  add_if(compares_positions(layer), "positional");
  add_if(uses_random(layer), "seed");
  add_if(std::ranges::any_of(layer, selects), "selection");
  add_if(std::ranges::all_of(layer, is_by_score), "pointwise");
  add_if(!std::holds_alternative<NoNorm>(norm), "norm");
  add_if(std::ranges::any_of(layer, spans), "span");
  add_if(std::ranges::any_of(layer, has_clauses), "clauses");
  add_if(std::ranges::any_of(layer, has_centroids), "centroids");
  add_if(parts_of(norm).uniform_gain, "uniform_gain");
  return names;
}

std::tuple<double, double> alpha_range_op() { return {kLeastAlpha, kGreatestAlpha}; }

// "name:least:greatest:step:keyword,...": see SpecArgument.
std::string text_of(const std::vector<SpecArgument>& fields) {
  std::vector<std::string> parts;
  for (const SpecArgument& field : fields)
    parts.push_back(
        cat(field.name, ':', shortest(field.min), ':', shortest(field.max), ':', field.step, ':', field.keyword));
  return join(parts, ",");
}

// "part\tname\targuments\thelp\tfields" of everything that a spec may name, patterns first. The part of a pattern that
// joins no other is its name.
std::vector<std::string> spec_names_op() {
  std::vector<std::string> lines;
  for (const auto& [part, names] :
       {std::pair("pattern", pattern_names()), std::pair("stage", stage_names()), std::pair("alias", alias_names())}) {
    for (const SpecName& name : names)
      lines.push_back(cat(name.name == AdaptiveSpan::kName ? "span" : part, '\t', name.name, '\t', name.arguments, '\t',
                          name.help, '\t', text_of(name.fields)));
  }
  return lines;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  using torch::CppFunction;
  m.def(kAttentionSchema, {at::Tag::pt2_compliant_tag});
  m.impl("attention", torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd,
                                      CppFunction::makeFromBoxedFunction<&run_user_call<&attention_op>>()));
  m.def(kWeightsSchema);
  // Reads data, so that compilers have to take it whole; not differentiable. Python gives its fake.
  for (const c10::DispatchKey key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA}) {
    m.impl("attention_weights",
           torch::dispatch(key, CppFunction::makeFromBoxedFunction<&run_user_call<&weights_op>>()));
  }
  m.impl("attention_weights", torch::dispatch(c10::DispatchKey::Autograd, CppFunction::makeFallthrough()));
  for (const c10::DispatchKey key : {c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA}) {
    m.impl("attention", torch::dispatch(key, CppFunction::makeFromBoxedFunction<&autocast>()));
    m.impl("attention_weights", torch::dispatch(key, CppFunction::makeFromBoxedFunction<&autocast>()));
  }
  m.def("parse(str spec, int? num_heads=None) -> str", TORCH_FN(parse_op));
  m.def("parameters(str spec) -> str[]", TORCH_FN(parameters_op));
  m.def("properties(str spec) -> str[]", TORCH_FN(properties_op));
  m.def("alpha_range() -> (float, float)", TORCH_FN(alpha_range_op));
  m.def("spec_names() -> str[]", TORCH_FN(spec_names_op));
}

}  // namespace fovea::ops
