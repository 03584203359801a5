#include "fovea/ops/attention_core.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "fovea/base/strings.h"
#include "fovea/ops/attention_checks.h"
#include "fovea/ops/attention_kernel.h"
#include "fovea/ops/attention_layout.h"
#include "fovea/ops/given_pairs.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/key_screen.h"
#include "fovea/ops/no_autocast.h"
#include "fovea/ops/recycled.h"
#include "fovea/ops/reference.h"
#include "fovea/spec/attention_cache.h"
#include "fovea/spec/attention_parameters.h"

namespace fovea::ops {
namespace {

using kernels::AttentionProblem;
using kernels::DType;

DType dtype_of(at::ScalarType type) {
  if (type == at::kDouble) return DType::kFloat64;
  return type == at::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
}

int64_t known_size(const at::Tensor& x, int64_t dim) { return x.sym_size(dim).guard_int(__FILE__, __LINE__); }

kernels::OffsetRanges offset_ranges(const CoreTensors& x, const GroupCall& inputs) {
  const OffsetTerms& terms = inputs.offsets;
  check_terms(x.q, terms);
  kernels::OffsetRanges ranges;
  if (terms.by_head.defined()) ranges.by_head = {terms.by_head_first, known_size(terms.by_head, 1)};
  if (terms.by_query.defined()) ranges.by_query = {terms.by_query_first, known_size(terms.by_query, -1)};
  if (terms.rows.defined()) ranges.product = {terms.rows_first, known_size(terms.rows, 0)};
  if (inputs.value_offsets > 0) ranges.sums = {terms.values_first, inputs.value_offsets};
  return ranges;
}

// Heads are dimension 1 of both layouts.
AttentionProblem problem_of(const CoreTensors& x, const GroupCall& inputs, Phase phase) {
  const int64_t share = std::max<int64_t>(inputs.heads_per_key, 1);
  const kernels::KeySharing keys{share, inputs.first_head % share};
  check_inputs(x, keys);
  AttentionProblem problem;
  problem.keys = keys;
  problem.spec = parse_attention_once(inputs.spec);
  problem.kind = inputs.kind;
  problem.dtype = dtype_of(x.q.scalar_type());
  problem.num_heads = x.q.sym_size(1).guard_int(__FILE__, __LINE__);
  problem.head_dim = x.q.sym_size(-1).guard_int(__FILE__, __LINE__);
  problem.needs_backward = phase == Phase::kTraining;
  problem.dropout = static_cast<float>(inputs.dropout);
  check_rate(inputs.dropout, "attention: dropout");
  problem.keys_listed = inputs.k_tokens.has_value();
  problem.offsets = offset_ranges(x, inputs);
  problem.given = given_pairs(x, inputs.pairs);
  validate(problem.spec, problem.kind);
  if (problem.offsets.any() && problem.kind == AttentionKind::kCross) {
    throw Error("attention: terms by offset are for self-attention; cross-attention has no offsets, leave them out");
  }
  return problem;
}

TokenCall call_of(const CoreTensors& x, const GroupCall& inputs, AttentionProblem problem) {
  TokenCall call;
  call.problem = std::move(problem);
  call.problem.sequences = sequences_of({x.q, x.k}, inputs);
  call.key_tokens = key_tokens_of({x.q, x.k}, inputs);
  if (call.problem.given.any()) call.given = given_lists(inputs.pairs.lists, call.problem, x.q.dim() == 3);
  const int64_t dropout_seed =
      inputs.drawn_seed ? inputs.drawn_seed->item<int64_t>() : inputs.dropout_seed.guard_int(__FILE__, __LINE__);
  call.random = {static_cast<uint64_t>(inputs.seed), static_cast<uint64_t>(dropout_seed), inputs.layer,
                 inputs.first_head};
  call.q = token_rows(x.q), call.k = token_rows(x.k), call.v = token_rows(x.v);
  if (inputs.alpha) call.alpha = *inputs.alpha;
  call.scale = inputs.scale.value_or(1);
  call.screen = checked_screen(x.k, inputs);
  call.terms = inputs.offsets;
  if (call.terms.by_query.defined()) call.terms.by_query = token_rows(call.terms.by_query);
  if (call.terms.queries.defined()) call.terms.queries = token_rows(call.terms.queries);
  return call;
}

// The tensors' values must be readable: tensors that stand in for others while a graph is made do not have any.
TokenCall checked_call(const CoreTensors& x, const GroupCall& inputs, Phase phase) {
  AttentionProblem problem = problem_of(x, inputs, phase);
  if (inputs.alpha) {
    check_alpha(*inputs.alpha, problem.num_heads);
  } else if (learns_argument(problem.spec.transform)) {
    throw Error(
        cat("attention: ", inputs.spec, " needs alpha of shape [", problem.num_heads, "], a value a head; got none"));
  }
  return call_of(x, inputs, std::move(problem));
}

// Sizes that depend on nothing but what Meta knows too: not on lengths, not on the device.
kernels::SavedPerRow saved_size(const AttentionProblem& problem, const at::Tensor& q) {
  const bool computes = problem.needs_backward && q.scalar_type() != at::kHalf;
  return computes ? kernels::saved_at_most(problem) : kernels::SavedPerRow{};
}

std::pair<at::Tensor, at::Tensor> saved_buffers(const AttentionProblem& problem, const at::Tensor& q) {
  const kernels::SavedPerRow size = saved_size(problem, q);
  const c10::SymInt tokens = q.dim() == 3 ? q.sym_size(0) : q.sym_size(0) * q.sym_size(2);
  const auto buffer = [&](int64_t each, at::ScalarType type) {
    const at::TensorOptions options = q.options().dtype(type);
    if (q.device().is_cpu()) return recycled({tokens.expect_int(), q.size(1), each}, options);
    return at::empty_symint({tokens, q.sym_size(1), each}, options);
  };
  return {buffer(size.floats, at::kFloat), buffer(size.ints, at::kInt)};
}

// The kernels that take the call; none if it is the reference's.
std::optional<kernels::KernelChoice> choose_kernels(const TokenCall& call) {
  const at::ScalarType type = call.q.scalar_type();
  // Every kernel refuses float64, aloud where FOVEA_KERNEL names it; of the other types none is DType's.
  const bool has_dtype = type == at::kFloat || type == at::kBFloat16 || type == at::kDouble;
  if (!call.q.device().is_cpu() || !has_dtype) return std::nullopt;
  kernels::KernelChoice choice(call.problem);
  if (choice.tasks().empty()) return std::nullopt;
  return choice;
}

// For the reference, which reads keys in their order.
void gather_keys(TokenCall& call, const GroupCall& inputs) {
  if (!inputs.k_tokens) return;
  const at::Tensor tokens = inputs.k_tokens->to(call.k.device());
  call.k = call.k.index_select(0, tokens), call.v = call.v.index_select(0, tokens);
}

at::Tensor laid_out_sums(const at::Tensor& sums, const at::Tensor& q) {
  return sums.defined() ? from_token_rows(sums, q) : at::empty({0}, q.options().dtype(term_type(q)));
}

}  // namespace

CoreOutput core_forward(const CoreTensors& x, const GroupCall& inputs, Phase phase) {
  const NoAutocast guard;
  TokenCall call = checked_call(x, inputs, phase);
  const auto [stats, kept] = saved_buffers(call.problem, x.q);
  const std::optional<kernels::KernelChoice> choice = choose_kernels(call);
  if (!choice) gather_keys(call, inputs);
  const TokenOutput output = choice ? kernel_forward(*choice, call, {stats, kept}) : reference_forward(call);
  return {from_token_rows(output.out, x.q), stats, kept, laid_out_sums(output.sums, x.q)};
}

CoreGradients core_backward(const CoreCotangents& cotangents, const CoreTensors& x, const CoreOutput& saved,
                            const GroupCall& inputs, const WantedTerms& wanted) {
  const NoAutocast guard;
  if (inputs.k_begins) throw Error("attention: no gradients with k_begins; give k_offsets");
  const TokenCall call = checked_call(x, inputs, Phase::kTraining);
  check_saved(cotangents.out, x.q, saved, saved_size(call.problem, x.q));
  check_sums(cotangents.sums, x.q, saved.sums, call.problem.offsets.sums.count);
  const TokenCotangents by_token{token_rows(cotangents.out),
                                 cotangents.sums.defined() ? token_rows(cotangents.sums) : cotangents.sums};
  const std::optional<kernels::KernelChoice> choice = choose_kernels(call);
  TokenGradients grads =
      choice ? kernel_backward(*choice, call, saved, by_token, wanted) : reference_backward(call, by_token, wanted);
  if (!grads.alpha.defined()) grads.alpha = at::empty({0}, x.q.options());
  for (const auto member : kTermTensors) {
    if (!(grads.terms.*member).defined()) grads.terms.*member = at::empty({0}, x.q.options());
  }
  if (grads.terms.by_query.dim() == 3) grads.terms.by_query = from_token_rows(grads.terms.by_query, x.q);
  if (grads.terms.queries.dim() == 3) grads.terms.queries = from_token_rows(grads.terms.queries, x.q);
  return {from_token_rows(grads.q, x.q), from_token_rows(grads.k, x.k), from_token_rows(grads.v, x.v), grads.alpha,
          grads.terms};
}

at::Tensor core_weights(const CoreTensors& x, const GroupCall& inputs) {
  const NoAutocast guard;
  TokenCall call = checked_call(x, inputs, Phase::kInference);
  if (call.problem.sequences.empty() && x.q.dim() == 4) {  // no lengths to take the greatest of
    return at::empty({0, x.q.size(1), x.q.size(2), x.k.size(2)}, x.q.options());
  }
  gather_keys(call, inputs);
  return reference_weights(call);
}

CoreOutput meta_forward(const CoreTensors& x, const GroupCall& inputs, Phase phase) {
  const AttentionProblem problem = problem_of(x, inputs, phase);
  const auto [stats, kept] = saved_buffers(problem, x.q);
  at::Tensor sums = laid_out_sums({}, x.q);
  if (const int64_t count = problem.offsets.sums.count; count > 0) {
    c10::SymDimVector sizes(x.q.sym_sizes().begin(), x.q.sym_sizes().end());
    sizes.back() = count;
    sums = empty_like_rows(at::empty_symint(sizes, sums.options()));
  }
  return {empty_like_rows(x.q), stats, kept, sums};
}

CoreGradients meta_backward(const CoreTensors& x, const GroupCall& inputs, const WantedTerms& wanted) {
  const auto& alpha = inputs.alpha;
  const auto none = [&] { return at::empty({0}, x.q.options()); };
  CoreGradients grads{empty_gradient(x.q),
                      empty_gradient(x.k),
                      empty_gradient(x.v),
                      alpha ? at::empty_symint(alpha->sym_sizes(), alpha->options()) : none(),
                      {}};
  for (size_t i = 0; i < kTermTensors.size(); ++i) {
    const at::Tensor& term = inputs.offsets.*kTermTensors[i];
    at::Tensor& grad = grads.terms.*kTermTensors[i];
    grad = none();
    if (!wanted[i] || !term.defined()) continue;
    grad = at::empty_symint(term.sym_sizes(), term.options());
    if (kTermTensors[i] == &TermTensors::by_query) grad = empty_like_rows(term);
    if (kTermTensors[i] == &TermTensors::queries) grad = empty_gradient(term);
  }
  return grads;
}

}  // namespace fovea::ops
