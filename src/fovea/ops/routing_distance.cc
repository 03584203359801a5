#include "fovea/ops/routing_distance.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <numeric>
#include <type_traits>
#include <utility>

#include "fovea/ops/executor_for.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/routing_rows.h"

namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct HeldNearest : torch::CustomClassHolder {
  explicit HeldNearest(NearestOfTokens all) : tokens(std::move(all)) {}
  NearestOfTokens tokens;
};

// The tensors of one call by rows: the difference of row (token, head) to its centroid.
template <class T>
struct CentroidRows {
  CentroidRows(const at::Tensor& x, const at::Tensor& centroids, const NearestOfTokens& all)
      : tokens(x.size(0)), heads(x.size(1)), width(x.size(2)), clusters(centroids.size(1)), nearest(all.nearest) {
    vectors = x.const_data_ptr<T>();
    means = centroids.const_data_ptr<Wide>();
  }
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const T* vector(int64_t token, int64_t head) const { return vectors + (token * heads + head) * width; }
  const Wide* mean(int64_t token, int64_t head) const {
    return means + (head * clusters + nearest[static_cast<size_t>(head * tokens + token)]) * width;
  }
  int64_t tokens, heads, width, clusters;
  const std::vector<int32_t>& nearest;
  const T* vectors = nullptr;
  const Wide* means = nullptr;
};

template <class T>
at::Tensor wide_centroids(const at::Tensor& centroids) {
  return centroids.detach().to(std::is_same_v<T, double> ? at::kDouble : at::kFloat).contiguous();
}

// The numbers that the distance is the mean of.
double numbers_of(const at::Tensor& x, const NearestOfTokens& tokens) {
  int64_t count = 0;
  for (const kernels::TokenRange& range : tokens.ranges) count += range.length;
  return static_cast<double>(count * x.size(1) * x.size(2));
}

template <class T>
void add_measures(const at::Tensor& x, const at::Tensor& centroids, const NearestOfTokens& tokens,
                  ClusterMeasures& to) {
  const at::Tensor means = wide_centroids<T>(centroids);
  const auto all = [](const at::Tensor& t) {
    return std::span<double>(t.mutable_data_ptr<double>(), static_cast<size_t>(t.numel()));
  };
  std::vector<double> squares(static_cast<size_t>(x.size(1)));
  kernels::measure_clusters({.vectors = token_rows_of<T>(x),
                             .nearest = {tokens.nearest, x.size(1), means.size(1)},
                             .sequences = tokens.ranges,
                             .centroids = means.const_data_ptr<T>(),
                             .counts = all(to.counts),
                             .sums = all(to.sums),
                             .squares = squares},
                            executor_for(x.numel()));
  const double numbers = numbers_of(x, tokens);
  to.mean_square = numbers > 0 ? std::accumulate(squares.begin(), squares.end(), 0.0) / numbers : 0;
}

template <class T>
at::Tensor scaled_differences(const at::Tensor& x, const at::Tensor& centroids, const NearestOfTokens& tokens,
                              double factor) {
  const at::Tensor means = wide_centroids<T>(centroids);
  const CentroidRows<T> rows(x, means, tokens);
  at::Tensor out = at::zeros_like(x);
  T* to = out.mutable_data_ptr<T>();
  using Wide = typename CentroidRows<T>::Wide;
  executor_for(x.numel()).run(std::ssize(tokens.ranges) * rows.heads, [&](int64_t piece, int) {
    const kernels::TokenRange& range = tokens.ranges[static_cast<size_t>(piece / rows.heads)];
    const int64_t head = piece % rows.heads;
    for (int64_t t = range.begin; t < range.begin + range.length; ++t) {
      const T* vector = rows.vector(t, head);
      const Wide* mean = rows.mean(t, head);
      T* row = to + (t * rows.heads + head) * rows.width;
      for (int64_t i = 0; i < rows.width; ++i)
        row[i] = static_cast<T>((static_cast<Wide>(vector[i]) - mean[i]) * static_cast<Wide>(factor));
    }
  });
  return out;
}

struct Distance : torch::autograd::Function<Distance> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& given, const at::Tensor& centroids,
                            const c10::intrusive_ptr<HeldNearest>& held) {
    const at::Tensor x = given.contiguous();
    context->save_for_backward({x, centroids});
    context->saved_data["held"] = c10::IValue::make_capsule(held);
    return at::scalar_tensor(measure_clusters(x, centroids, held->tokens).mean_square,
                             x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuse_second_derivatives("the commitment loss");
    const variable_list saved = context->get_saved_variables();
    const auto held = c10::static_intrusive_pointer_cast<HeldNearest>(context->saved_data["held"].toCapsule());
    const at::Tensor& x = saved[0];
    const double factor = distance_factor(x, held->tokens, grads[0].item<double>());
    return {
        with_row_type(x, [&]<class T>(T) { return scaled_differences<T>(x, saved[1], held->tokens, factor); }), {}, {}};
  }
};

// Through ATen's operators.
at::Tensor composed_distance(const at::Tensor& x, const at::Tensor& centroids, const NearestOfTokens& tokens) {
  std::vector<at::Tensor> parts;
  const int64_t heads = x.size(1), clusters = centroids.size(1);
  at::Tensor rows = at::empty({x.size(0), heads}, at::kLong);
  for (int64_t t = 0; t < x.size(0); ++t) {
    for (int64_t h = 0; h < heads; ++h)
      rows.mutable_data_ptr<int64_t>()[t * heads + h] =
          h * clusters + tokens.nearest[static_cast<size_t>(h * x.size(0) + t)];
  }
  const at::Tensor wide = x.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const at::Tensor nearest = centroids.detach()
                                 .to(wide.options())
                                 .flatten(0, 1)
                                 .index_select(0, rows.flatten().to(x.device()))
                                 .view(x.sizes());
  const at::Tensor differences = wide - nearest;
  for (const kernels::TokenRange& range : tokens.ranges)
    parts.push_back(differences.narrow(0, range.begin, range.length));
  return parts.empty() ? wide.sum() * 0 : at::cat(parts).square().mean();
}

}  // namespace

ClusterMeasures measure_clusters(const at::Tensor& given, const at::Tensor& centroids, const NearestOfTokens& tokens) {
  const bool is_double = given.scalar_type() == at::kDouble;
  const at::Tensor x = given.detach().to(at::kCPU, is_double ? at::kDouble : at::kFloat).contiguous();
  const int64_t heads = x.size(1), clusters = centroids.size(1);
  ClusterMeasures out{at::zeros({heads, clusters}, at::kDouble), at::zeros({heads, clusters, x.size(2)}, at::kDouble)};
  const at::Tensor means = centroids.detach().cpu();
  is_double ? add_measures<double>(x, means, tokens, out) : add_measures<float>(x, means, tokens, out);
  return out;
}

double distance_factor(const at::Tensor& x, const NearestOfTokens& tokens, double grad) {
  const double numbers = numbers_of(x, tokens);
  return numbers > 0 ? 2 * grad / numbers : 0;
}

at::Tensor distance_to_centroids(const at::Tensor& x, const at::Tensor& centroids, NearestOfTokens tokens) {
  if (!has_row_loops(x)) return composed_distance(x, centroids, tokens);
  return Distance::apply(x, centroids, c10::make_intrusive<HeldNearest>(std::move(tokens)));
}

}  // namespace fovea::ops
