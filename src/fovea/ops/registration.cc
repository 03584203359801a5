#include <ATen/core/LegacyTypeDispatch.h>
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
#include "fovea/ops/second_order.h"
#include "fovea/ops/step_tensors.h"

// The operators of attention_core.h as the dispatcher knows them: schemas, CPU, CUDA, Meta and Autograd.
namespace fovea::ops {
namespace {

using c10::SymInt;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;
using OptionalTensors = c10::List<OptionalTensor>;

// What the operators' `layout` and `stream` hold, in this order.
constexpr std::array kLayout{&CoreArguments::q_offsets, &CoreArguments::k_offsets, &CoreArguments::k_begins,
                             &CoreArguments::k_tokens,  &CoreArguments::q_lengths, &CoreArguments::k_lengths,
                             &CoreArguments::drawn_seed};
constexpr std::array kStream{&CoreArguments::seed, &CoreArguments::layer, &CoreArguments::first_head};

constexpr const char* kAttentionForward =
    "attention_forward(Tensor q, Tensor k, Tensor v, Tensor? alpha, Tensor?[] layout, str spec, str kind, "
    "float scale, float dropout, int[] stream, SymInt dropout_seed, bool needs_backward) "
    "-> (Tensor out, Tensor stats, Tensor kept)";
constexpr const char* kAttentionBackward =
    "attention_backward(Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor stats, Tensor kept, "
    "Tensor? alpha, Tensor?[] layout, str spec, str kind, float scale, float dropout, int[] stream, "
    "SymInt dropout_seed) -> (Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_alpha)";

using AttentionForwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using AttentionForwardFunction = AttentionForwardResult(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                        const OptionalTensor&, const OptionalTensors&, std::string_view,
                                                        std::string_view, double, double, at::IntArrayRef, SymInt,
                                                        bool);
using AttentionBackwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using AttentionBackwardFunction = AttentionBackwardResult(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                          const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                          const at::Tensor&, const OptionalTensor&,
                                                          const OptionalTensors&, std::string_view, std::string_view,
                                                          double, double, at::IntArrayRef, SymInt);

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

struct Text {
  std::string_view spec, kind;
};
CoreArguments arguments_of(const OptionalTensor& alpha, const OptionalTensors& layout, const Text& text,
                           at::IntArrayRef stream) {
  CoreArguments a;
  if (layout.size() != kLayout.size() || stream.size() != kStream.size()) {
    throw Error(cat("attention: layout has ", layout.size(), " tensors and stream ", stream.size(),
                    " numbers; expected ", kLayout.size(), " and ", kStream.size()));
  }
  for (size_t i = 0; i < kLayout.size(); ++i) a.*kLayout[i] = layout.get(i);
  for (size_t i = 0; i < kStream.size(); ++i) a.*kStream[i] = stream[i];
  a.alpha = alpha;
  a.spec = text.spec, a.kind = text.kind;
  return a;
}

AttentionForwardResult attention_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                         const OptionalTensor& alpha, const OptionalTensors& layout,
                                         std::string_view spec, std::string_view kind, double scale, double dropout,
                                         at::IntArrayRef stream, SymInt dropout_seed, bool needs_backward) {
  CoreArguments arguments = arguments_of(alpha, layout, {spec, kind}, stream);
  arguments.scale = scale, arguments.dropout = dropout;
  arguments.dropout_seed = dropout_seed.guard_int(__FILE__, __LINE__);
  CoreOutput result = core_forward({q, k, v}, arguments, needs_backward ? Phase::kTraining : Phase::kInference);
  return {result.out, result.stats, result.kept};
}

AttentionForwardResult attention_forward_meta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                              const OptionalTensor& alpha, const OptionalTensors& layout,
                                              std::string_view spec, std::string_view kind, double, double dropout,
                                              at::IntArrayRef stream, SymInt, bool needs_backward) {
  CoreArguments arguments = arguments_of(alpha, layout, {spec, kind}, stream);
  arguments.dropout = dropout;
  CoreOutput result = meta_forward({q, k, v}, arguments, needs_backward ? Phase::kTraining : Phase::kInference);
  return {result.out, result.stats, result.kept};
}

AttentionBackwardResult attention_backward(const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k,
                                           const at::Tensor& v, const at::Tensor& out, const at::Tensor& stats,
                                           const at::Tensor& kept, const OptionalTensor& alpha,
                                           const OptionalTensors& layout, std::string_view spec, std::string_view kind,
                                           double scale, double dropout, at::IntArrayRef stream, SymInt dropout_seed) {
  CoreArguments arguments = arguments_of(alpha, layout, {spec, kind}, stream);
  arguments.scale = scale, arguments.dropout = dropout;
  arguments.dropout_seed = dropout_seed.guard_int(__FILE__, __LINE__);
  CoreGradients grads = core_backward(grad_out, {q, k, v}, {out, stats, kept}, arguments);
  return {grads.q, grads.k, grads.v, grads.alpha};
}

AttentionBackwardResult attention_backward_meta(const at::Tensor&, const at::Tensor& q, const at::Tensor& k,
                                                const at::Tensor& v, const at::Tensor&, const at::Tensor&,
                                                const at::Tensor&, const OptionalTensor& alpha, const OptionalTensors&,
                                                std::string_view, std::string_view, double, double, at::IntArrayRef,
                                                SymInt) {
  CoreGradients grads = meta_backward({q, k, v}, alpha);
  return {grads.q, grads.k, grads.v, grads.alpha};
}

// What is handed on beside the tensors to differentiate.
struct Rest {
  OptionalTensors layout;
  std::string spec, kind;
  double scale, dropout;
  std::vector<int64_t> stream;
  SymInt dropout_seed;
};

// What forward leaves for attention_backward. Handed over beside what autograd follows: of its derivatives none is
// asked.
struct Left {
  at::Tensor out, stats, kept;
};

// `tensors`, then the layout's, and what is no tensor.
void save(AutogradContext* context, variable_list tensors, const Rest& rest) {
  for (size_t i = 0; i < rest.layout.size(); ++i) tensors.push_back(tensor_or_none(rest.layout.get(i)));
  context->save_for_backward(std::move(tensors));
  auto& data = context->saved_data;
  data["spec"] = rest.spec, data["kind"] = rest.kind, data["scale"] = rest.scale, data["dropout"] = rest.dropout;
  data["stream"] = rest.stream, data["dropout_seed"] = rest.dropout_seed;
}

// `count` tensors were saved before the layout's.
Rest saved_rest(AutogradContext* context, const variable_list& saved, size_t count) {
  OptionalTensors layout;
  for (size_t i = count; i < saved.size(); ++i) layout.push_back(some_or_none(saved[i]));
  const auto& data = context->saved_data;
  return {layout,
          data.at("spec").toStringRef(),
          data.at("kind").toStringRef(),
          data.at("scale").toDouble(),
          data.at("dropout").toDouble(),
          data.at("stream").toIntVector(),
          data.at("dropout_seed").toSymInt()};
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const OptionalTensor& alpha, const Rest& rest, Left* left) {
    const at::AutoDispatchBelowADInplaceOrView below;
    // Kernels leave something for backward, and they are the CPU's alone.
    const bool needs_backward = q.device().is_cpu();
    auto [out, stats, kept] =
        attention_forward_operator().call(q, k, v, alpha, rest.layout, rest.spec, rest.kind, rest.scale, rest.dropout,
                                          rest.stream, rest.dropout_seed, needs_backward);
    save(context, {q, k, v, out, stats, kept, tensor_or_none(alpha)}, rest);
    context->saved_data["kernel"] = std::string(kernels::forced_kernel());
    *left = {out, stats, kept};
    context->set_materialize_grads(false);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    variable_list result(6);
    if (!grads[0].defined()) return result;
    const variable_list s = context->get_saved_variables();
    const Rest rest = saved_rest(context, s, 7);
    check_kernel(context->saved_data.at("kernel").toStringRef());
    auto [grad_q, grad_k, grad_v, grad_alpha] = attention_backward_operator().call(
        grads[0], s[0], s[1], s[2], s[3], s[4], s[5], some_or_none(s[6]), rest.layout, rest.spec, rest.kind, rest.scale,
        rest.dropout, rest.stream, rest.dropout_seed);
    result[0] = grad_q, result[1] = grad_k, result[2] = grad_v;
    if (s[6].defined()) result[3] = grad_alpha;
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
                               const at::Tensor& k, const at::Tensor& v, const OptionalTensor& alpha, const Left& left,
                               const Rest& rest) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [grad_q, grad_k, grad_v, grad_alpha] = attention_backward_operator().call(
        grad_out, q, k, v, left.out, left.stats, left.kept, alpha, rest.layout, rest.spec, rest.kind, rest.scale,
        rest.dropout, rest.stream, rest.dropout_seed);
    save(context, {grad_out, q, k, v, tensor_or_none(alpha)}, rest);
    context->set_materialize_grads(false);
    return {grad_q, grad_k, grad_v, grad_alpha};
  }

  static variable_list backward(AutogradContext* context, const variable_list& cotangents) {
    const variable_list s = context->get_saved_variables();
    refuse_tracing();
    const Rest rest = saved_rest(context, s, 5);
    CoreArguments arguments = arguments_of(std::nullopt, rest.layout, {rest.spec, rest.kind}, rest.stream);
    arguments.scale = rest.scale, arguments.dropout = rest.dropout, arguments.dropout_seed = rest.dropout_seed;
    const auto composed = [&](const variable_list& x) {
      arguments.alpha = some_or_none(x[3]);
      return core_composed({x[0], x[1], x[2]}, arguments);
    };
    variable_list result = second_order({composed, s[0], {s[1], s[2], s[3], s[4]}}, cotangents);
    result.resize(7);
    return result;
  }
};

AttentionForwardResult attention_forward_autograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                  const OptionalTensor& alpha, const OptionalTensors& layout,
                                                  std::string_view spec, std::string_view kind, double scale,
                                                  double dropout, at::IntArrayRef stream, SymInt dropout_seed,
                                                  bool needs_backward) {
  refuse_tangents({q, k, v, tensor_or_none(alpha)}, "attention");
  if (!wants_gradient({q, k, v, tensor_or_none(alpha)})) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return attention_forward_operator().call(q, k, v, alpha, layout, spec, kind, scale, dropout, stream,
                                             std::move(dropout_seed), needs_backward);
  }
  Left left;
  const at::Tensor out = AttentionFunction::apply(
      q, k, v, alpha,
      Rest{layout, std::string(spec), std::string(kind), scale, dropout, stream.vec(), std::move(dropout_seed)}, &left);
  return {out, left.stats, left.kept};
}

AttentionBackwardResult attention_backward_autograd(const at::Tensor& grad_out, const at::Tensor& q,
                                                    const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                                                    const at::Tensor& stats, const at::Tensor& kept,
                                                    const OptionalTensor& alpha, const OptionalTensors& layout,
                                                    std::string_view spec, std::string_view kind, double scale,
                                                    double dropout, at::IntArrayRef stream, SymInt dropout_seed) {
  if (!wants_gradient({grad_out, q, k, v, tensor_or_none(alpha)})) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return attention_backward_operator().call(grad_out, q, k, v, out, stats, kept, alpha, layout, spec, kind, scale,
                                              dropout, stream, std::move(dropout_seed));
  }
  const variable_list result = AttentionSecondFunction::apply(
      grad_out, q, k, v, alpha, Left{out, stats, kept},
      Rest{layout, std::string(spec), std::string(kind), scale, dropout, stream.vec(), std::move(dropout_seed)});
  return {result[0], result[1], result[2], result[3]};
}

}  // namespace

at::Tensor call_forward(const CoreTensors& x, const CoreArguments& a) {
  OptionalTensors layout;
  for (const auto member : kLayout) layout.push_back(a.*member);
  std::array<int64_t, kStream.size()> stream{};
  for (size_t i = 0; i < kStream.size(); ++i) stream[i] = a.*kStream[i];
  return std::get<0>(attention_forward_operator().call(x.q, x.k, x.v, a.alpha, layout, a.spec, a.kind, a.scale,
                                                       a.dropout, stream, a.dropout_seed, /*needs_backward=*/false));
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
