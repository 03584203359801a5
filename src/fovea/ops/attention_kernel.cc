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
  KernelTermGradients(const TokenCall& call, const WantedTerms& wanted) : call_(call) {
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
      grads_.by_query = clear_padding(recycled(call.terms.by_query.sizes(), floats), call, &Sequence::q_length);
      pointers_.by_query = written_float_rows(grads_.by_query);
    }
    if (wants(&TermTensors::queries)) {
      grads_.queries = gradient_of(call.terms.queries, call, &Sequence::q_length);
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

TokenOutput kernel_forward(const kernels::KernelChoice& choice, const TokenCall& call, const SavedTensors& saved) {
  at::Tensor out = clear_padding(recycled(call.q.sizes(), call.q.options()), call, &Sequence::q_length);
  const at::Tensor alpha = float_alpha(call);
  kernels::AttentionForward in;
  in.q = input_rows(call.q), in.k = input_rows(call.k), in.v = input_rows(call.v), in.out = output_rows(out);
  in.key_tokens = call.key_tokens.data();
  in.scale = static_cast<float>(call.scale), in.alpha = pointer(alpha), in.random = call.random;
  in.given = lists_of(call.given);
  if (call.screen.rows.defined()) in.screen = kernel_screen(call.screen);
  const KernelTerms terms(call);
  in.terms = terms.pointers;
  at::Tensor sums;
  if (const int64_t count = call.problem.offsets.sums.count; count > 0) {
    sums = clear_padding(recycled({call.q.size(0), call.q.size(1), count}, call.q.options().dtype(at::kFloat)), call,
                         &Sequence::q_length);
    in.terms.sums = written_float_rows(sums);
  }
  if (call.problem.needs_backward) {
    in.stats = saved.stats.mutable_data_ptr<float>(), in.kept = saved.kept.mutable_data_ptr<int32_t>();
    in.saved = {saved.stats.size(2), saved.kept.size(2)};
  }
  choice.forward(in, torch_executor());
  return {out, sums};
}

TokenGradients kernel_backward(const kernels::KernelChoice& choice, const TokenCall& call, const CoreOutput& saved,
                               const TokenCotangents& given, const WantedTerms& wanted) {
  TokenGradients grads{gradient_of(call.q, call, &Sequence::q_length),
                       gradient_of(call.k, call, &Sequence::k_length),
                       gradient_of(call.v, call, &Sequence::k_length),
                       {},
                       {}};
  const at::Tensor out = token_rows(saved.out), alpha = float_alpha(call);
  if (alpha.defined()) grads.alpha = at::zeros(alpha.sizes(), alpha.options());
  kernels::AttentionBackward in;
  in.q = input_rows(call.q), in.k = input_rows(call.k), in.v = input_rows(call.v), in.out = input_rows(out),
  in.grad_out = input_rows(given.out);
  in.grad_q = output_rows(grads.q), in.grad_k = output_rows(grads.k), in.grad_v = output_rows(grads.v);
  in.scale = static_cast<float>(call.scale), in.alpha = pointer(alpha), in.random = call.random;
  if (alpha.defined()) in.grad_alpha = grads.alpha.mutable_data_ptr<float>();
  in.stats = saved.stats.const_data_ptr<float>(), in.kept = saved.kept.const_data_ptr<int32_t>();
  in.saved = {saved.stats.size(2), saved.kept.size(2)};
  in.given = lists_of(call.given);
  const KernelTerms terms(call);
  const KernelTermGradients grad_terms(call, wanted);
  in.terms = terms.pointers, in.grad_terms = grad_terms.pointers();
  const at::Tensor sums = call.problem.offsets.sums.count > 0 ? token_rows(saved.sums) : at::Tensor();
  if (sums.defined()) in.terms.sums = written_float_rows(sums);
  if (given.sums.defined()) in.grad_terms.sums = float_rows(given.sums);
  choice.backward(in, torch_executor());
  grads.terms = grad_terms.result();
  if (alpha.defined()) grads.alpha = grads.alpha.to(call.alpha.scalar_type());
  return grads;
}

}  // namespace fovea::ops
