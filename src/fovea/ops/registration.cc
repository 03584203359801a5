#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <array>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/kernels/attention/forced.h"
#include "fovea/ops/attention_core.h"
#include "fovea/ops/registration_lists.h"
#include "fovea/ops/second_order.h"
#include "fovea/ops/step_tensors.h"

// The operators of attention_core.h as the dispatcher knows them: schemas, CPU, CUDA, Meta and Autograd.
namespace fovea::ops {
namespace {

using c10::SymInt;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kAttentionForward =
    "attention_forward(Tensor q, Tensor k, Tensor v, Tensor? alpha, Tensor?[] terms, int[] offsets, Tensor?[] layout, "
    "str spec, str kind, float scale, float dropout, int[] stream, SymInt dropout_seed, bool needs_backward) "
    "-> (Tensor out, Tensor stats, Tensor kept, Tensor sums)";
constexpr const char* kAttentionBackward =
    "attention_backward(Tensor grad_out, Tensor? grad_sums, Tensor q, Tensor k, Tensor v, Tensor out, Tensor stats, "
    "Tensor kept, Tensor sums, Tensor? alpha, Tensor?[] terms, int[] offsets, int wanted, Tensor?[] layout, "
    "str spec, str kind, float scale, float dropout, int[] stream, SymInt dropout_seed) "
    "-> (Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_alpha, Tensor[] grad_terms)";

using AttentionForwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using AttentionForwardFunction = AttentionForwardResult(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                        const OptionalTensor&, const OptionalTensors&, at::IntArrayRef,
                                                        const OptionalTensors&, std::string_view, std::string_view,
                                                        double, double, at::IntArrayRef, SymInt, bool);
using AttentionBackwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, std::vector<at::Tensor>>;
using AttentionBackwardFunction = AttentionBackwardResult(const at::Tensor&, const OptionalTensor&, const at::Tensor&,
                                                          const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                          const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                          const OptionalTensor&, const OptionalTensors&,
                                                          at::IntArrayRef, int64_t, const OptionalTensors&,
                                                          std::string_view, std::string_view, double, double,
                                                          at::IntArrayRef, SymInt);

const auto& attention_forward_operator() {
  static const auto kHandle =
      c10::Dispatcher::singleton().findSchemaOrThrow("fovea::attention_forward", "").typed<AttentionForwardFunction>();
  return kHandle;
}
const auto& attention_backward_operator() {
  static const auto kHandle = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("fovea::attention_backward", "")
                                  .typed<AttentionBackwardFunction>();
  return kHandle;
}

AttentionForwardResult attention_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                         const OptionalTensor& alpha, const OptionalTensors& terms,
                                         at::IntArrayRef offsets, const OptionalTensors& layout, std::string_view spec,
                                         std::string_view kind, double scale, double dropout, at::IntArrayRef stream,
                                         SymInt dropout_seed, bool needs_backward) {
  CoreArguments arguments = arguments_of(alpha, {terms, offsets, layout, stream}, {spec, kind});
  arguments.scale = scale, arguments.dropout = dropout;
  arguments.dropout_seed = dropout_seed.guard_int(__FILE__, __LINE__);
  CoreOutput result = core_forward({q, k, v}, arguments, needs_backward ? Phase::kTraining : Phase::kInference);
  return {result.out, result.stats, result.kept, result.sums};
}

AttentionForwardResult attention_forward_meta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                              const OptionalTensor& alpha, const OptionalTensors& terms,
                                              at::IntArrayRef offsets, const OptionalTensors& layout,
                                              std::string_view spec, std::string_view kind, double, double dropout,
                                              at::IntArrayRef stream, SymInt, bool needs_backward) {
  CoreArguments arguments = arguments_of(alpha, {terms, offsets, layout, stream}, {spec, kind});
  arguments.dropout = dropout;
  CoreOutput result = meta_forward({q, k, v}, arguments, needs_backward ? Phase::kTraining : Phase::kInference);
  return {result.out, result.stats, result.kept, result.sums};
}

AttentionBackwardResult attention_backward(const at::Tensor& grad_out, const OptionalTensor& grad_sums,
                                           const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                           const at::Tensor& out, const at::Tensor& stats, const at::Tensor& kept,
                                           const at::Tensor& sums, const OptionalTensor& alpha,
                                           const OptionalTensors& terms, at::IntArrayRef offsets, int64_t wanted,
                                           const OptionalTensors& layout, std::string_view spec, std::string_view kind,
                                           double scale, double dropout, at::IntArrayRef stream, SymInt dropout_seed) {
  CoreArguments arguments = arguments_of(alpha, {terms, offsets, layout, stream}, {spec, kind});
  arguments.scale = scale, arguments.dropout = dropout;
  arguments.dropout_seed = dropout_seed.guard_int(__FILE__, __LINE__);
  CoreGradients grads = core_backward({grad_out, tensor_or_none(grad_sums)}, {q, k, v}, {out, stats, kept, sums},
                                      arguments, wanted_of(wanted));
  return {grads.q, grads.k, grads.v, grads.alpha, list_of(grads.terms)};
}

AttentionBackwardResult attention_backward_meta(const at::Tensor&, const OptionalTensor&, const at::Tensor& q,
                                                const at::Tensor& k, const at::Tensor& v, const at::Tensor&,
                                                const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                const OptionalTensor& alpha, const OptionalTensors& terms,
                                                at::IntArrayRef offsets, int64_t wanted, const OptionalTensors& layout,
                                                std::string_view spec, std::string_view kind, double, double,
                                                at::IntArrayRef stream, SymInt) {
  const CoreArguments arguments = arguments_of(alpha, {terms, offsets, layout, stream}, {spec, kind});
  CoreGradients grads = meta_backward({q, k, v}, arguments, wanted_of(wanted));
  return {grads.q, grads.k, grads.v, grads.alpha, list_of(grads.terms)};
}

// The arguments that are handed on beside the tensors to differentiate.
struct Rest {
  std::vector<int64_t> offsets;
  OptionalTensors layout;
  std::string spec, kind;
  double scale, dropout;
  std::vector<int64_t> stream;
  SymInt dropout_seed;
};

// The results of forward that attention_backward reads. They bypass autograd, because none of their derivatives is
// asked for.
struct Left {
  at::Tensor out, stats, kept, sums;
};

// Saves `tensors`, then the layout's tensors, and the other arguments.
void save(AutogradContext* context, variable_list tensors, const Rest& rest) {
  for (size_t i = 0; i < rest.layout.size(); ++i) tensors.push_back(tensor_or_none(rest.layout.get(i)));
  context->save_for_backward(std::move(tensors));
  auto& data = context->saved_data;
  data["spec"] = rest.spec, data["kind"] = rest.kind, data["scale"] = rest.scale, data["dropout"] = rest.dropout;
  data["stream"] = rest.stream, data["dropout_seed"] = rest.dropout_seed, data["offsets"] = rest.offsets;
}

// `count` tensors were saved before the layout's.
Rest saved_rest(AutogradContext* context, const variable_list& saved, size_t count) {
  OptionalTensors layout;
  for (size_t i = count; i < saved.size(); ++i) layout.push_back(some_or_none(saved[i]));
  const auto& data = context->saved_data;
  return {data.at("offsets").toIntVector(), layout,
          data.at("spec").toStringRef(),    data.at("kind").toStringRef(),
          data.at("scale").toDouble(),      data.at("dropout").toDouble(),
          data.at("stream").toIntVector(),  data.at("dropout_seed").toSymInt()};
}

// The terms that were saved from place `first` on.
TermTensors saved_terms(const variable_list& saved, size_t first) {
  TermTensors terms;
  for (size_t i = 0; i < kTermTensors.size(); ++i) terms.*kTermTensors[i] = saved[first + i];
  return terms;
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  // Terms stand apart: autograd follows no list with places that are empty.
  static variable_list forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const OptionalTensor& alpha, const OptionalTensor& by_head,
                               const OptionalTensor& by_query, const OptionalTensor& queries,
                               const OptionalTensor& rows, const Rest& rest, Left* left) {
    const TermTensors terms{tensor_or_none(by_head), tensor_or_none(by_query), tensor_or_none(queries),
                            tensor_or_none(rows)};
    context->saved_data["wanted"] = wanted_bits(terms);
    const at::AutoDispatchBelowADInplaceOrView below;
    // Kernels leave something for backward, and they are the CPU's alone.
    const bool needs_backward = q.device().is_cpu();
    auto [out, stats, kept, sums] = attention_forward_operator().call(
        q, k, v, alpha, optional_list_of(terms), rest.offsets, rest.layout, rest.spec, rest.kind, rest.scale,
        rest.dropout, rest.stream, rest.dropout_seed, needs_backward);
    variable_list saved{q, k, v, out, stats, kept, sums, tensor_or_none(alpha)};
    for (const at::Tensor& term : list_of(terms)) saved.push_back(term);
    save(context, std::move(saved), rest);
    context->saved_data["kernel"] = std::string(kernels::forced_kernel());
    *left = {out, stats, kept, sums};
    context->set_materialize_grads(false);
    return {out, sums};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    variable_list result(6 + kTermTensors.size());
    if (!grads[0].defined() && !grads[1].defined()) return result;
    const variable_list s = context->get_saved_variables();
    const Rest rest = saved_rest(context, s, 8 + kTermTensors.size());
    check_kernel(context->saved_data.at("kernel").toStringRef());
    const TermTensors terms = saved_terms(s, 8);
    const at::Tensor grad_out = grads[0].defined() ? grads[0] : at::zeros_like(s[3]);
    auto [grad_q, grad_k, grad_v, grad_alpha, grad_terms] = attention_backward_operator().call(
        grad_out, some_or_none(grads[1]), s[0], s[1], s[2], s[3], s[4], s[5], s[6], some_or_none(s[7]),
        optional_list_of(terms), rest.offsets, context->saved_data.at("wanted").toInt(), rest.layout, rest.spec,
        rest.kind, rest.scale, rest.dropout, rest.stream, rest.dropout_seed);
    result[0] = grad_q, result[1] = grad_k, result[2] = grad_v;
    if (s[7].defined()) result[3] = grad_alpha;
    for (size_t i = 0; i < kTermTensors.size(); ++i) {
      const at::Tensor& term = terms.*kTermTensors[i];
      if (term.defined() && term.requires_grad()) result[4 + i] = grad_terms[i];
    }
    return result;
  }

 private:
  // Kernels do not read what others left.
  static void check_kernel(std::string_view in_forward) {
    const std::string_view now = kernels::forced_kernel();
    if (now == in_forward) return;
    throw Error(cat("attention: FOVEA_KERNEL was '", in_forward, "' in forward and is '", now,
                    "' in backward; change it between steps only"));
  }
};

// The composition reads lengths and values and fills masks in memory, which no graph would hold.
void refuse_tracing() {
  using Modes = c10::impl::TorchDispatchModeTLS;
  using c10::impl::TorchDispatchModeKey;
  if (!Modes::get_mode(TorchDispatchModeKey::FAKE) && !Modes::get_mode(TorchDispatchModeKey::PROXY)) return;
  throw Error("attention: second derivatives cannot be traced; take them outside make_fx and fake tensors");
}

class AttentionSecondFunction : public torch::autograd::Function<AttentionSecondFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& grad_out, const at::Tensor& q,
                               const at::Tensor& k, const at::Tensor& v, const OptionalTensor& alpha,
                               const OptionalTensor& by_head, const OptionalTensor& by_query,
                               const OptionalTensor& queries, const OptionalTensor& rows, const Left& left,
                               const Rest& rest, int64_t wanted) {
    const TermTensors terms{tensor_or_none(by_head), tensor_or_none(by_query), tensor_or_none(queries),
                            tensor_or_none(rows)};
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [grad_q, grad_k, grad_v, grad_alpha, grad_terms] =
        attention_backward_operator().call(grad_out, std::nullopt, q, k, v, left.out, left.stats, left.kept, left.sums,
                                           alpha, optional_list_of(terms), rest.offsets, wanted, rest.layout, rest.spec,
                                           rest.kind, rest.scale, rest.dropout, rest.stream, rest.dropout_seed);
    variable_list saved{grad_out, q, k, v, tensor_or_none(alpha)};
    for (const at::Tensor& term : list_of(terms)) saved.push_back(term);
    save(context, std::move(saved), rest);
    context->set_materialize_grads(false);
    variable_list result{grad_q, grad_k, grad_v, grad_alpha};
    result.insert(result.end(), grad_terms.begin(), grad_terms.end());
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& cotangents) {
    const variable_list s = context->get_saved_variables();
    refuse_tracing();
    const Rest rest = saved_rest(context, s, 5 + kTermTensors.size());
    CoreArguments arguments =
        arguments_of(std::nullopt, {OptionalTensors(), rest.offsets, rest.layout, rest.stream}, {rest.spec, rest.kind});
    arguments.scale = rest.scale, arguments.dropout = rest.dropout, arguments.dropout_seed = rest.dropout_seed;
    const auto composed = [&](const variable_list& x) {
      arguments.alpha = some_or_none(x[3]);
      arguments.terms = saved_terms(x, 4);
      return core_composed({x[0], x[1], x[2]}, arguments);
    };
    variable_list result =
        second_order({composed, s[0], {s.begin() + 1, s.begin() + 5 + kTermTensors.size()}}, cotangents);
    result.resize(8 + kTermTensors.size());
    return result;
  }
};

AttentionForwardResult attention_forward_autograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                  const OptionalTensor& alpha, const OptionalTensors& terms,
                                                  at::IntArrayRef offsets, const OptionalTensors& layout,
                                                  std::string_view spec, std::string_view kind, double scale,
                                                  double dropout, at::IntArrayRef stream, SymInt dropout_seed,
                                                  bool needs_backward) {
  const TermTensors given = terms_of(terms);
  const auto& [by_head, by_query, queries, rows] = given;
  const std::initializer_list<at::Tensor> all = {q, k, v, tensor_or_none(alpha), by_head, by_query, queries, rows};
  refuse_tangents(all, "attention");
  if (!wants_gradient(all)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return attention_forward_operator().call(q, k, v, alpha, terms, offsets, layout, spec, kind, scale, dropout, stream,
                                             std::move(dropout_seed), needs_backward);
  }
  Left left;
  const variable_list result = AttentionFunction::apply(
      q, k, v, alpha, some_or_none(by_head), some_or_none(by_query), some_or_none(queries), some_or_none(rows),
      Rest{offsets.vec(), layout, std::string(spec), std::string(kind), scale, dropout, stream.vec(),
           std::move(dropout_seed)},
      &left);
  return {result[0], left.stats, left.kept, result[1]};
}

AttentionBackwardResult attention_backward_autograd(
    const at::Tensor& grad_out, const OptionalTensor& grad_sums, const at::Tensor& q, const at::Tensor& k,
    const at::Tensor& v, const at::Tensor& out, const at::Tensor& stats, const at::Tensor& kept, const at::Tensor& sums,
    const OptionalTensor& alpha, const OptionalTensors& terms, at::IntArrayRef offsets, int64_t wanted,
    const OptionalTensors& layout, std::string_view spec, std::string_view kind, double scale, double dropout,
    at::IntArrayRef stream, SymInt dropout_seed) {
  const TermTensors given = terms_of(terms);
  const auto& [by_head, by_query, queries, rows] = given;
  if (!wants_gradient(
          {grad_out, tensor_or_none(grad_sums), q, k, v, tensor_or_none(alpha), by_head, by_query, queries, rows})) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return attention_backward_operator().call(grad_out, grad_sums, q, k, v, out, stats, kept, sums, alpha, terms,
                                              offsets, wanted, layout, spec, kind, scale, dropout, stream,
                                              std::move(dropout_seed));
  }
  if (grad_sums) throw Error("attention: has no second derivatives with offset_values; leave out create_graph");
  const variable_list result =
      AttentionSecondFunction::apply(grad_out, q, k, v, alpha, some_or_none(by_head), some_or_none(by_query),
                                     some_or_none(queries), some_or_none(rows), Left{out, stats, kept, sums},
                                     Rest{offsets.vec(), layout, std::string(spec), std::string(kind), scale, dropout,
                                          stream.vec(), std::move(dropout_seed)},
                                     wanted);
  return {result[0], result[1], result[2], result[3], {result.begin() + 4, result.end()}};
}

}  // namespace

CalledOutput call_forward(const CoreTensors& x, const CoreArguments& a) {
  OptionalTensors layout;
  for (const auto member : kLayout) layout.push_back(a.*member);
  std::array<int64_t, kStream.size()> stream{};
  for (size_t i = 0; i < kStream.size(); ++i) stream[i] = a.*kStream[i];
  std::array<int64_t, kOffsets.size()> offsets{};
  for (size_t i = 0; i < kOffsets.size(); ++i) offsets[i] = a.offsets.*kOffsets[i];
  const AttentionForwardResult result =
      attention_forward_operator().call(x.q, x.k, x.v, a.alpha, optional_list_of(a.terms), offsets, layout, a.spec,
                                        a.kind, a.scale, a.dropout, stream, a.dropout_seed, /*needs_backward=*/false);
  return {std::get<0>(result), std::get<3>(result)};
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(kAttentionForward, {at::Tag::pt2_compliant_tag});
  m.def(kAttentionBackward, {at::Tag::pt2_compliant_tag});
  for (const c10::DispatchKey key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA}) {
    m.impl("attention_forward", torch::dispatch(key, TORCH_FN(attention_forward)));
    m.impl("attention_backward", torch::dispatch(key, TORCH_FN(attention_backward)));
  }
  m.impl("attention_forward", torch::dispatch(c10::DispatchKey::Meta, TORCH_FN(attention_forward_meta)));
  m.impl("attention_backward", torch::dispatch(c10::DispatchKey::Meta, TORCH_FN(attention_backward_meta)));
  m.impl("attention_forward", torch::dispatch(c10::DispatchKey::Autograd, TORCH_FN(attention_forward_autograd)));
  m.impl("attention_backward", torch::dispatch(c10::DispatchKey::Autograd, TORCH_FN(attention_backward_autograd)));
}

}  // namespace fovea::ops
