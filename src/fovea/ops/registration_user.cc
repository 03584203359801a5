#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/ops/attention.h"
#include "fovea/ops/attention_core.h"
#include "fovea/spec/attention_parameters.h"

// The operators that users call through torch.ops: fovea::attention, and functions that describe specs.
namespace fovea::ops {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// The order of AttentionOptions.
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

// offset_bias is by head if it has two dimensions, else by query.
OffsetTerms offset_terms(const OptionalTensor& bias, int64_t first) {
  OffsetTerms terms;
  const bool by_head = bias && bias->dim() == 2;
  if (by_head) terms.by_head = bias, terms.by_head_first = first;
  if (bias && !by_head) terms.by_query = bias, terms.by_query_first = first;
  return terms;
}

at::Tensor attention_op(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::string_view spec,
                        std::string_view kind, const OptionalTensor& q_offsets, const OptionalTensor& k_offsets,
                        const OptionalTensor& k_begins, const OptionalTensor& k_tokens, const OptionalTensor& q_lengths,
                        const OptionalTensor& k_lengths, const OptionalTensor& alpha, const OptionalTensor& gain,
                        const OptionalTensor& gate, const OptionalTensor& bias, std::optional<double> scale,
                        double dropout, int64_t seed, int64_t layer, c10::SymInt dropout_seed,
                        const OptionalTensor& drawn_seed, const OptionalTensor& offset_bias, int64_t offset_first,
                        const OptionalTensor& offset_queries, const OptionalTensor& offset_rows,
                        int64_t offset_rows_first, const OptionalTensor& offset_values, int64_t offset_values_first,
                        bool enable_gqa, const OptionalTensor& indices, const OptionalTensor& block_indices,
                        int64_t block_size) {
  AttentionOptions options{parse_kind(kind), q_offsets, k_offsets, k_begins, k_tokens, q_lengths,
                           k_lengths,        alpha,     {},        {},       {},       {}};
  options.gain = gain, options.gate = gate, options.bias = bias;
  options.scale = scale, options.dropout = dropout, options.seed = seed, options.layer = layer;
  options.dropout_seed = std::move(dropout_seed), options.drawn_seed = drawn_seed;
  options.offsets = offset_terms(offset_bias, offset_first);
  options.offsets.queries = offset_queries, options.offsets.rows = offset_rows;
  options.offsets.values = offset_values;
  options.offsets.rows_first = offset_rows_first, options.offsets.values_first = offset_values_first;
  options.enable_gqa = enable_gqa;
  options.indices = indices, options.block_indices = block_indices, options.block_size = block_size;
  return attention(q, k, v, std::string(spec), options);
}

at::Tensor weights_op(const at::Tensor& q, const at::Tensor& k, std::string_view spec, std::string_view kind,
                      const OptionalTensor& q_offsets, const OptionalTensor& k_offsets, const OptionalTensor& k_begins,
                      const OptionalTensor& k_tokens, const OptionalTensor& q_lengths, const OptionalTensor& k_lengths,
                      const OptionalTensor& alpha, std::optional<double> scale, int64_t seed, int64_t layer,
                      const OptionalTensor& offset_bias, int64_t offset_first, const OptionalTensor& offset_queries,
                      const OptionalTensor& offset_rows, int64_t offset_rows_first, bool enable_gqa,
                      const OptionalTensor& indices, const OptionalTensor& block_indices, int64_t block_size) {
  AttentionOptions options{parse_kind(kind), q_offsets, k_offsets, k_begins, k_tokens, q_lengths,
                           k_lengths,        alpha,     {},        {},       {},       {}};
  options.scale = scale, options.seed = seed, options.layer = layer;
  options.offsets = offset_terms(offset_bias, offset_first);
  options.offsets.queries = offset_queries, options.offsets.rows = offset_rows;
  options.offsets.rows_first = offset_rows_first;
  options.enable_gqa = enable_gqa;
  options.indices = indices, options.block_indices = block_indices, options.block_size = block_size;
  return attention_weights(q, k, std::string(spec), options);
}

// Through the dispatcher, so that code that follows or fakes operators meets this one, not its parts.
at::Tensor call_weights(const at::Tensor& q, const at::Tensor& k, std::string_view spec, std::string_view kind,
                        const OptionalTensor& q_offsets, const OptionalTensor& k_offsets,
                        const OptionalTensor& k_begins, const OptionalTensor& k_tokens, const OptionalTensor& q_lengths,
                        const OptionalTensor& k_lengths, const OptionalTensor& alpha, std::optional<double> scale,
                        int64_t seed, int64_t layer, const OptionalTensor& offset_bias, int64_t offset_first,
                        const OptionalTensor& offset_queries, const OptionalTensor& offset_rows,
                        int64_t offset_rows_first, bool enable_gqa, const OptionalTensor& indices,
                        const OptionalTensor& block_indices, int64_t block_size) {
  static const auto kHandle =
      c10::Dispatcher::singleton().findSchemaOrThrow("fovea::attention_weights", "").typed<decltype(weights_op)>();
  return kHandle.call(q, k, spec, kind, q_offsets, k_offsets, k_begins, k_tokens, q_lengths, k_lengths, alpha, scale,
                      seed, layer, offset_bias, offset_first, offset_queries, offset_rows, offset_rows_first,
                      enable_gqa, indices, block_indices, block_size);
}

// Under autocast, q, k and v become the region's type, like those of PyTorch's own attention. The template takes an
// operator's type; the tensors that lead its arguments are cast.
template <auto* kOperator, class Function = std::remove_pointer_t<decltype(kOperator)>>
struct Autocast;
template <auto* kOperator, class... Arguments>
struct Autocast<kOperator, at::Tensor(Arguments...)> {
  static at::Tensor run(Arguments... arguments) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    return kOperator(cast(std::forward<Arguments>(arguments))...);
  }

 private:
  static at::Tensor cast(const at::Tensor& x) {
    const c10::DeviceType device = x.device().type();
    return at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), x, device);
  }
  template <class T>
  static T&& cast(T&& other) {
    return std::forward<T>(other);
  }
};

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
  const auto has_clauses = [](const HeadGroup& group) { return group.spec.clauses.has_value(); };
  const auto has_centroids = [](const HeadGroup& group) {
    return group.spec.route.has_value() && group.spec.route->has_centroids();
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
  m.def(kAttentionSchema, {at::Tag::pt2_compliant_tag});
  m.impl("attention", torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(attention_op)));
  for (const c10::DispatchKey key : {c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA}) {
    m.impl("attention", torch::dispatch(key, TORCH_FN(Autocast<&attention_op>::run)));
  }
  m.def(kWeightsSchema);
  // Reads data, so that compilers have to take it whole; not differentiable. Python gives its fake.
  for (const c10::DispatchKey key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA}) {
    m.impl("attention_weights", torch::dispatch(key, TORCH_FN(weights_op)));
  }
  m.impl("attention_weights", torch::dispatch(c10::DispatchKey::Autograd, torch::CppFunction::makeFallthrough()));
  for (const c10::DispatchKey key : {c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA}) {
    m.impl("attention_weights", torch::dispatch(key, TORCH_FN(Autocast<&call_weights>::run)));
  }
  m.def("parse(str spec, int? num_heads=None) -> str", TORCH_FN(parse_op));
  m.def("parameters(str spec) -> str[]", TORCH_FN(parameters_op));
  m.def("properties(str spec) -> str[]", TORCH_FN(properties_op));
  m.def("alpha_range() -> (float, float)", TORCH_FN(alpha_range_op));
  m.def("spec_names() -> str[]", TORCH_FN(spec_names_op));
}

}  // namespace fovea::ops
