#include "fovea/ops/attention_kernel.h"

#include <ATen/ops/zeros.h>

#include "fovea/ops/attention_layout.h"
#include "fovea/ops/executor.h"
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

}  // namespace

at::Tensor kernel_forward(const kernels::Division& division, const TokenCall& call, const SavedTensors& saved) {
  at::Tensor out = clear_padding(recycled(call.q.sizes(), call.q.options()), call, &Sequence::q_length);
  const at::Tensor alpha = float_alpha(call);
  kernels::AttentionForward in;
  in.q = input_rows(call.q), in.k = input_rows(call.k), in.v = input_rows(call.v), in.out = output_rows(out);
  in.key_tokens = call.key_tokens.data();
  in.scale = static_cast<float>(call.scale), in.alpha = pointer(alpha), in.random = call.random;
  if (call.problem.needs_backward) {
    in.stats = saved.stats.mutable_data_ptr<float>(), in.kept = saved.kept.mutable_data_ptr<int32_t>();
    in.saved = {saved.stats.size(2), saved.kept.size(2)};
  }
  division.forward(in, torch_executor());
  return out;
}

TokenGradients kernel_backward(const kernels::Division& division, const TokenCall& call, const CoreOutput& saved,
                               const at::Tensor& grad_out) {
  TokenGradients grads{gradient_of(call.q, call, &Sequence::q_length),
                       gradient_of(call.k, call, &Sequence::k_length),
                       gradient_of(call.v, call, &Sequence::k_length),
                       {}};
  const at::Tensor out = token_rows(saved.out), alpha = float_alpha(call);
  if (alpha.defined()) grads.alpha = at::zeros(alpha.sizes(), alpha.options());
  kernels::AttentionBackward in;
  in.q = input_rows(call.q), in.k = input_rows(call.k), in.v = input_rows(call.v), in.out = input_rows(out),
  in.grad_out = input_rows(grad_out);
  in.grad_q = output_rows(grads.q), in.grad_k = output_rows(grads.k), in.grad_v = output_rows(grads.v);
  in.scale = static_cast<float>(call.scale), in.alpha = pointer(alpha), in.random = call.random;
  if (alpha.defined()) in.grad_alpha = grads.alpha.mutable_data_ptr<float>();
  in.stats = saved.stats.const_data_ptr<float>(), in.kept = saved.kept.const_data_ptr<int32_t>();
  in.saved = {saved.stats.size(2), saved.kept.size(2)};
  division.backward(in, torch_executor());
  if (alpha.defined()) grads.alpha = grads.alpha.to(call.alpha.scalar_type());
  return grads;
}

}  // namespace fovea::ops
