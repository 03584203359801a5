#include "fovea/ops/attention_core.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "fovea/base/strings.h"
#include "fovea/ops/attention_layout.h"
#include "fovea/ops/reference.h"

namespace fovea::ops {
namespace {

using kernels::AttentionProblem;
using kernels::DType;

// Texts come again with every call of every layer.
AttentionSpec parsed(std::string_view text) {
  static std::mutex mutex;
  static std::unordered_map<std::string, AttentionSpec> cache;
  const std::scoped_lock lock(mutex);
  const auto found = cache.find(std::string(text));
  if (found != cache.end()) return found->second;
  return cache.emplace(text, parse_attention(text)).first->second;
}

DType dtype_of(at::ScalarType type) {
  if (type == at::kDouble) return DType::kFloat64;
  return type == at::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
}

// Heads are dimension 1 of both layouts.
AttentionProblem problem_of(const CoreTensors& x, const CoreArguments& arguments, Phase phase) {
  AttentionProblem problem;
  problem.spec = parsed(arguments.spec);
  problem.kind = parse_kind(arguments.kind);
  problem.dtype = dtype_of(x.q.scalar_type());
  problem.num_heads = x.q.sym_size(1).guard_int(__FILE__, __LINE__);
  problem.head_dim = x.q.sym_size(-1).guard_int(__FILE__, __LINE__);
  problem.needs_backward = phase == Phase::kTraining;
  problem.dropout = static_cast<float>(arguments.dropout);
  validate(problem.spec, problem.kind);
  return problem;
}

ReferenceCall call_of(const CoreTensors& x, const CoreArguments& arguments, AttentionProblem problem) {
  ReferenceCall call;
  call.problem = std::move(problem);
  call.problem.sequences = sequences_of({x.q, x.k}, arguments);
  const int64_t dropout_seed = arguments.dropout_seed.guard_int(__FILE__, __LINE__);
  call.random = {static_cast<uint64_t>(arguments.seed), static_cast<uint64_t>(dropout_seed), arguments.layer,
                 arguments.first_head};
  call.q = token_rows(x.q), call.k = token_rows(x.k), call.v = token_rows(x.v);
  if (arguments.alpha) call.alpha = *arguments.alpha;
  call.scale = arguments.scale;
  return call;
}

}  // namespace

CoreOutput core_forward(const CoreTensors& x, const CoreArguments& arguments, Phase phase) {
  const ReferenceCall call = call_of(x, arguments, problem_of(x, arguments, phase));
  const at::Tensor empty = at::empty({call.q.size(0), call.q.size(1), 0}, x.q.options().dtype(at::kFloat));
  return {from_token_rows(reference_forward(call), x.q), empty, empty.to(at::kInt)};
}

CoreGradients core_backward(const at::Tensor& grad_out, const CoreTensors& x, const CoreOutput&,
                            const CoreArguments& arguments) {
  if (arguments.k_begins) throw Error("attention: no gradients with k_begins; give k_offsets");
  const ReferenceCall call = call_of(x, arguments, problem_of(x, arguments, Phase::kTraining));
  ReferenceGradients grads = reference_backward(call, token_rows(grad_out));
  if (!grads.alpha.defined()) grads.alpha = at::empty({0}, x.q.options());
  return {from_token_rows(grads.q, x.q), from_token_rows(grads.k, x.k), from_token_rows(grads.v, x.v), grads.alpha};
}

at::Tensor core_weights(const CoreTensors& x, const CoreArguments& arguments) {
  return reference_weights(call_of(x, arguments, problem_of(x, arguments, Phase::kInference)));
}

CoreOutput meta_forward(const CoreTensors& x, const CoreArguments& arguments, Phase phase) {
  problem_of(x, arguments, phase);
  const bool packed = x.q.dim() == 3;
  const c10::SymInt tokens = packed ? x.q.sym_size(0) : x.q.sym_size(0) * x.q.sym_size(2);
  const c10::SymInt heads = x.q.sym_size(1);
  const at::Tensor stats = at::empty_symint({tokens, heads, 0}, x.q.options().dtype(at::kFloat));
  return {empty_like_rows(x.q), stats, at::empty_symint({tokens, heads, 0}, x.q.options().dtype(at::kInt))};
}

CoreGradients meta_backward(const CoreTensors& x, const std::optional<at::Tensor>& alpha) {
  return {empty_like_rows(x.q), empty_like_rows(x.k), empty_like_rows(x.v),
          alpha ? at::empty_symint(alpha->sym_sizes(), alpha->options()) : at::empty({0}, x.q.options())};
}

AttentionKind parse_kind(std::string_view text) {
  if (text == "self") return AttentionKind::kSelf;
  if (text == "causal") return AttentionKind::kCausal;
  if (text == "cross") return AttentionKind::kCross;
  throw Error(cat("attention: unknown kind '", text, "'; expected self, causal or cross"));
}

std::string_view name_of(AttentionKind kind) {
  return kind == AttentionKind::kSelf ? "self" : kind == AttentionKind::kCausal ? "causal" : "cross";
}

}  // namespace fovea::ops
