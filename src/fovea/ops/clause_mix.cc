#include "fovea/ops/clause_mix.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "fovea/kernels/attention/cpu/clause_mix.h"
#include "fovea/ops/executor.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/step.h"

namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Shape = kernels::ClauseMixShape;

template <class T>
kernels::Rows<T> mix_rows(const at::Tensor& x) {
  return {static_cast<T*>(x.mutable_data_ptr()), x.stride(0), x.stride(1)};
}
kernels::Rows<const void> const_mix_rows(const at::Tensor& x) { return {x.const_data_ptr(), x.stride(0), x.stride(1)}; }

at::Tensor with_plain_width(const at::Tensor& x) { return x.stride(2) == 1 ? x : x.contiguous(); }

Shape shape_of(const ClauseMixInputs& in) {
  Shape shape{.heads = in.q.size(1), .head_dim = in.q.size(2), .levels = std::ssize(in.clauses)};
  const auto* offsets = in.offsets.const_data_ptr<int64_t>();
  shape.offsets.assign(offsets, offsets + in.offsets.numel());
  shape.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim)));
  for (const at::Tensor& level : in.clauses) {
    const auto* bounds = level.const_data_ptr<int64_t>();
    for (int64_t c = 0; c + 1 < level.numel(); ++c) {
      shape.begins.insert(shape.begins.end(), static_cast<size_t>(bounds[c + 1] - bounds[c]),
                          static_cast<int32_t>(bounds[c]));
      shape.ends.insert(shape.ends.end(), static_cast<size_t>(bounds[c + 1] - bounds[c]),
                        static_cast<int32_t>(bounds[c + 1]));
    }
  }
  return shape;
}

at::Tensor mix_forward(const ClauseMixInputs& in, const Shape& shape) {
  at::Tensor out = at::empty(in.q.sizes(), in.q.options());
  kernels::clause_mix(shape,
                      kernels::ClauseMixForward{.q = const_mix_rows(in.q),
                                                .k = const_mix_rows(in.k),
                                                .v = const_mix_rows(in.v),
                                                .out = mix_rows<void>(out),
                                                .p = in.p.const_data_ptr<float>()},
                      torch_executor());
  return out;
}

struct ClauseMix : torch::autograd::Function<ClauseMix> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& p, const ClauseMixInputs& places) {
    std::vector<at::Tensor> saved = {q, k, v, p, places.offsets};
    saved.insert(saved.end(), places.clauses.begin(), places.clauses.end());
    context->save_for_backward(saved);
    return mix_forward({q, k, v, p, places.offsets, places.clauses},
                       shape_of({q, k, v, p, places.offsets, places.clauses}));
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuse_second_derivatives("clause_mix");
    const variable_list saved = context->get_saved_variables();
    const ClauseMixInputs in{saved[0], saved[1], saved[2], saved[3], saved[4], {saved.begin() + 5, saved.end()}};
    const at::Tensor grad_out = with_plain_width(grads[0]);
    // The three gradients lie in one block, like the output of the projection that made q, k and v.
    const at::Tensor grad = at::empty({in.q.size(0), 3, in.q.size(1), in.q.size(2)}, in.q.options());
    const at::Tensor grad_p = at::empty(in.p.sizes(), in.p.options());
    const variable_list parts = grad.unbind(1);
    kernels::clause_mix(shape_of(in),
                        kernels::ClauseMixBackward{.q = const_mix_rows(in.q),
                                                   .k = const_mix_rows(in.k),
                                                   .v = const_mix_rows(in.v),
                                                   .grad_out = const_mix_rows(grad_out),
                                                   .grad_q = mix_rows<void>(parts[0]),
                                                   .grad_k = mix_rows<void>(parts[1]),
                                                   .grad_v = mix_rows<void>(parts[2]),
                                                   .p = in.p.const_data_ptr<float>(),
                                                   .grad_p = grad_p.mutable_data_ptr<float>()},
                        torch_executor());
    return {parts[0], parts[1], parts[2], grad_p, {}};
  }
};

}  // namespace

bool fits_clause_mix(const ClauseMixInputs& in) {
  for (const at::Tensor& x : {in.q, in.k, in.v, in.p})
    if (!x.device().is_cpu() || x.scalar_type() != at::kFloat) return false;
  return std::ssize(in.clauses) <= kernels::kMostClauseLevels;
}

at::Tensor clause_mix(const ClauseMixInputs& in) {
  const at::Tensor q = with_plain_width(in.q), k = with_plain_width(in.k), v = with_plain_width(in.v);
  const at::Tensor p = in.p.contiguous();
  if (wants_gradient({q, k, v, p})) return ClauseMix::apply(q, k, v, p, in);
  const ClauseMixInputs plain{q, k, v, p, in.offsets, in.clauses};
  return mix_forward(plain, shape_of(plain));
}

}  // namespace fovea::ops
