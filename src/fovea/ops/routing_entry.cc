#include "fovea/ops/routing_entry.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "fovea/ops/executor_for.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/recycled.h"
#include "fovea/ops/routing.h"

namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <class T>
at::Tensor gradient_of_entry(const at::Tensor& given, const ClusterEntry& entry, const variable_list& grads) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const at::Tensor x = with_whole_rows(given);
  at::Tensor out = recycled({x.size(0), x.size(1), x.size(2)}, x.options());
  kernels::EntryGradient<KernelNumber<T>, Wide> job{.x = token_rows_of<T>(x),
                                                    .members = row_members(*entry.members, RowScale::kNone),
                                                    .eps = kernels::kRoutingNormEps,
                                                    .out = kernel_numbers<T>(out)};
  at::Tensor rows[2];
  for (size_t i = 0; i < 2; ++i) {
    if (!grads[i].defined()) continue;
    rows[i] = grads[i].contiguous();
    (job.first == nullptr ? job.first : job.second) = kernel_numbers<T>(rows[i]);
  }
  at::Tensor centroids;
  std::vector<uint8_t> counted;
  if (grads.size() > 2 && grads[2].defined()) {
    centroids = entry.centroids.detach().to(std::is_same_v<T, double> ? at::kDouble : at::kFloat).contiguous();
    counted.resize(static_cast<size_t>(x.size(0)));
    for (const kernels::TokenRange& range : entry.tokens.ranges)
      std::fill_n(counted.begin() + range.begin, range.length, uint8_t{1});
    job.distance = distance_factor(x, entry.tokens, grads[2].item<double>());
    job.centroids = centroids.const_data_ptr<Wide>();
    job.nearest = {entry.tokens.nearest, x.size(1), centroids.size(1)};
    job.counted = counted;
  }
  kernels::write_gradient(job, executor_for(out.numel()));
  return out;
}

struct EnterClusters : torch::autograd::Function<EnterClusters> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& vectors,
                               const c10::intrusive_ptr<ClusterEntry>& entry) {
    context->save_for_backward({x});
    context->saved_data["entry"] = c10::IValue::make_capsule(entry);
    context->set_materialize_grads(false);
    const at::Tensor q = gather_rows(vectors, entry->members);
    // Not a view, which autograd would guard as one.
    variable_list out{q, q.variable_data()};
    if (entry->centroids.defined()) {
      const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
      out.push_back(at::scalar_tensor(entry->distance, x.options().dtype(type)));
    }
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const at::Tensor x = context->get_saved_variables()[0];
    const auto entry = c10::static_intrusive_pointer_cast<ClusterEntry>(context->saved_data["entry"].toCapsule());
    refuse_second_derivatives("attention");
    return {with_row_type(x, [&]<class T>(T) { return gradient_of_entry<T>(x, *entry, grads); }), {}, {}};
  }
};

// The vectors of rows that has_row_loops() holds for; gradients go through ATen's norm of the same numbers.
struct NormaliseTokens : torch::autograd::Function<NormaliseTokens> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& given) {
    context->save_for_backward({given});
    const at::Tensor x = with_whole_rows(given);
    at::Tensor out = recycled({x.size(0), x.size(1), x.size(2)}, x.options());
    with_row_type(x, [&]<class T>(T) {
      kernels::normalise_rows(token_rows_of<T>(x), kernels::kRoutingNormEps, kernel_numbers<T>(out),
                              executor_for(out.numel()));
    });
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuse_second_derivatives("attention");
    const at::AutoGradMode enabled(true);
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    return torch::autograd::grad({norm_of_aten(x)}, {x}, {grads[0]});
  }
  static at::Tensor norm_of_aten(const at::Tensor& x) {
    return at::layer_norm(x, {x.size(2)}, {}, {}, kernels::kRoutingNormEps);
  }
};

}  // namespace

at::Tensor routing_vectors(const at::Tensor& x) {
  return has_row_loops(x) ? NormaliseTokens::apply(x) : NormaliseTokens::norm_of_aten(x);
}

EnteredRows enter_clusters(const at::Tensor& x, const at::Tensor& vectors,
                           const c10::intrusive_ptr<ClusterEntry>& entry) {
  const variable_list out = EnterClusters::apply(x, vectors, entry);
  return {out[0], out[1], out.size() > 2 ? out[2] : at::Tensor()};
}

}  // namespace fovea::ops
