#include "fovea/ops/attention_kernel.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "fovea/ops/attention_layout.h"
#include "fovea/ops/executor.h"
#include "fovea/ops/given_pairs.h"
#include "fovea/ops/key_screen.h"
#include "fovea/ops/recycled.h"

namespace fovea::ops {
namespace {

using kernels::Rows;
using kernels::Sequence;

Rows<const void> input_rows(const at::Tensor& x) { return {x.const_data_ptr(), x.stride(0), x.stride(1)}; }
Rows<void> output_rows(const at::Tensor& x) { return {x.mutable_data_ptr(), x.stride(0), x.stride(1)}; }

// A kernel writes the rows of its sequences; others are padding and must be zero.
at::Tensor clear_padding(const at::Tensor& rows, const TokenCall& call, int64_t Sequence::*length) {
  int64_t covered = 0;
  for (const Sequence& s : call.problem.sequences) covered += s.*length;
  return covered == rows.size(0) ? rows : rows.zero_();
}

// Clears a term by offset where no kernel writes: in padding, and in all heads if some group does not take the term.
at::Tensor clear_term(const at::Tensor& rows, const KernelCall& call, kernels::OffsetRange kernels::OffsetRanges::*of) {
  for (const kernels::GroupProblem& group : call.groups.groups) {
    if ((group.problem.offsets.*of).count == 0) return rows.zero_();
  }
  return clear_padding(rows, call.tokens, &Sequence::q_length);
}

at::Tensor gradient_of(const at::Tensor& x, const TokenCall& call, int64_t Sequence::*length) {
  const at::Tensor layout = rows_like(x, x.options().device(at::kMeta));
  return clear_padding(recycled(x.sizes(), layout.strides(), x.options()), call, length);
}

at::Tensor float_alpha(const TokenCall& call) {
  return call.alpha.defined() ? call.alpha.to(at::kFloat).contiguous() : at::Tensor();
}
const float* pointer(const at::Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; }

Rows<const float> float_rows(const at::Tensor& x) { return {x.const_data_ptr<float>(), x.stride(0), x.stride(1)}; }
Rows<float> written_float_rows(const at::Tensor& x) { return {x.mutable_data_ptr<float>(), x.stride(0), x.stride(1)}; }
at::Tensor dense_rows(const at::Tensor& x) { return x.defined() && x.stride(-1) != 1 ? x.contiguous() : x; }

// The terms as kernels read them; they hold the tensors that the pointers lead to.
struct KernelTerms {
  explicit KernelTerms(const TokenCall& call)
      : by_head(call.terms.by_head.defined() ? call.terms.by_head.contiguous() : at::Tensor()),
        by_query(dense_rows(call.terms.by_query)),
        queries(dense_rows(call.terms.queries)),
        rows(dense_rows(call.terms.rows)) {
    pointers.by_head = pointer(by_head);
    if (by_query.defined()) pointers.by_query = float_rows(by_query);
    if (!rows.defined()) return;
    pointers.queries = input_rows(queries);
    pointers.rows = input_rows(rows);
    if (rows.size(1) == 1) pointers.rows.head_stride = 0;
  }
  at::Tensor by_head, by_query, queries, rows;
  kernels::OffsetTerms pointers;
};

// The arrays to which kernels write the gradients of the terms that are wanted.
class KernelTermGradients {
 public:
  KernelTermGradients(const KernelCall& kernels, const WantedTerms& wanted) : call_(kernels.tokens) {
    const TokenCall& call = kernels.tokens;
    const auto wants = [&](at::Tensor TermTensors::*member) {
      const auto at = static_cast<size_t>(std::ranges::find(kTermTensors, member) - kTermTensors.begin());
      return wanted[at] && (call.terms.*member).defined();
    };
    const at::TensorOptions floats = call.q.options().dtype(at::kFloat);
    if (wants(&TermTensors::by_head)) {
      grads_.by_head = at::zeros(call.terms.by_head.sizes(), floats);
      pointers_.by_head = grads_.by_head.mutable_data_ptr<float>();
    }
    if (wants(&TermTensors::by_query)) {
      grads_.by_query =
          clear_term(recycled(call.terms.by_query.sizes(), floats), kernels, &kernels::OffsetRanges::by_query);
      pointers_.by_query = written_float_rows(grads_.by_query);
    }
    if (wants(&TermTensors::queries)) {
      grads_.queries = clear_term(gradient_of(call.terms.queries, call, &Sequence::q_length), kernels,
                                  &kernels::OffsetRanges::product);
      pointers_.queries = output_rows(grads_.queries);
    }
    if (wants(&TermTensors::rows)) {
      grads_.rows = at::zeros({call.terms.rows.size(0), call.q.size(1), call.q.size(2)}, floats);
      pointers_.rows = grads_.rows.mutable_data_ptr<float>();
    }
  }
  const kernels::OffsetGradients& pointers() const { return pointers_; }
  TermTensors result() const {
    TermTensors all = grads_;
    if (!all.rows.defined()) return all;
    if (call_.terms.rows.size(1) == 1) all.rows = all.rows.sum(1, true);
    all.rows = all.rows.to(call_.terms.rows.scalar_type());
    return all;
  }

 private:
  const TokenCall& call_;
  TermTensors grads_;
  kernels::OffsetGradients pointers_;
};

}  // namespace

TokenOutput kernel_forward(const KernelCall& call, const SavedTensors& saved) {
  const TokenCall& tokens = call.tokens;
  at::Tensor out = clear_padding(recycled(tokens.q.sizes(), tokens.q.options()), tokens, &Sequence::q_length);
  const at::Tensor alpha = float_alpha(tokens);
  kernels::AttentionForward in;
  in.q = input_rows(tokens.q), in.k = input_rows(tokens.k), in.v = input_rows(tokens.v), in.out = output_rows(out);
  in.key_tokens = tokens.key_tokens.data();
  in.scale = static_cast<float>(tokens.scale), in.alpha = pointer(alpha), in.random = tokens.random;
  in.given = lists_of(tokens.given);
  if (tokens.screen.rows.defined()) in.screen = kernel_screen(tokens.screen);
  const KernelTerms terms(tokens);
  in.terms = terms.pointers;
  at::Tensor sums;
  if (const int64_t count = tokens.problem.offsets.sums.count; count > 0) {
    sums = clear_term(recycled({tokens.q.size(0), tokens.q.size(1), count}, tokens.q.options().dtype(at::kFloat)), call,
                      &kernels::OffsetRanges::sums);
    in.terms.sums = written_float_rows(sums);
  }
  if (saved.floats.defined()) {
    in.stats = saved.floats.mutable_data_ptr<float>(), in.kept = saved.ints.mutable_data_ptr<int32_t>();
  }
  call.kernels.forward(in, torch_executor());
  return {out, sums};
}

TokenGradients kernel_backward(const KernelCall& call, const LayerOutput& output, const TokenCotangents& given,
                               const WantedTerms& wanted) {
  const TokenCall& tokens = call.tokens;
  TokenGradients grads{gradient_of(tokens.q, tokens, &Sequence::q_length),
                       gradient_of(tokens.k, tokens, &Sequence::k_length),
                       gradient_of(tokens.v, tokens, &Sequence::k_length),
                       {},
                       {}};
  const at::Tensor out = token_rows(output.out), alpha = float_alpha(tokens);
  if (alpha.defined()) grads.alpha = at::zeros(alpha.sizes(), alpha.options());
  kernels::AttentionBackward in;
  in.q = input_rows(tokens.q), in.k = input_rows(tokens.k), in.v = input_rows(tokens.v), in.out = input_rows(out),
  in.grad_out = input_rows(given.out);
  in.grad_q = output_rows(grads.q), in.grad_k = output_rows(grads.k), in.grad_v = output_rows(grads.v);
  in.scale = static_cast<float>(tokens.scale), in.alpha = pointer(alpha), in.random = tokens.random;
  if (alpha.defined()) in.grad_alpha = grads.alpha.mutable_data_ptr<float>();
  if (output.saved.floats.defined()) {
    in.stats = output.saved.floats.const_data_ptr<float>(), in.kept = output.saved.ints.const_data_ptr<int32_t>();
  }
  in.given = lists_of(tokens.given);
  const KernelTerms terms(tokens);
  const KernelTermGradients grad_terms(call, wanted);
  in.terms = terms.pointers, in.grad_terms = grad_terms.pointers();
  const at::Tensor sums = output.sums.defined() ? token_rows(output.sums) : at::Tensor();
  if (sums.defined()) in.terms.sums = written_float_rows(sums);
  if (given.sums.defined()) in.grad_terms.sums = float_rows(given.sums);
  call.kernels.backward(in, torch_executor());
  grads.terms = grad_terms.result();
  if (alpha.defined()) grads.alpha = grads.alpha.to(tokens.alpha.scalar_type());
  return grads;
}

}  // namespace fovea::ops
