#include "fovea/ops/routing_entry.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "fovea/ops/executor_for.h"
#include "fovea/ops/recycled.h"
#include "fovea/ops/routing.h"

namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The sum of term(i) for 0 <= i < count, in an order that leaves the compiler its vectors.
template <class Sum, class Term>
Sum sum_of(int64_t count, const Term& term) {
  constexpr int64_t kWays = 16;
  Sum sums[kWays] = {};
  int64_t i = 0;
  for (; i + kWays <= count; i += kWays) {
    for (int64_t way = 0; way < kWays; ++way) sums[way] += term(i + way);
  }
  for (; i < count; ++i) sums[i % kWays] += term(i);
  for (int64_t half = kWays / 2; half > 0; half /= 2) {
    for (int64_t way = 0; way < half; ++way) sums[way] += sums[way + half];
  }
  return sums[0];
}

// The gradients that reach the outputs of enter_clusters(); those of rows may be undefined. `distance` is already the
// distance_factor().
struct EntryGradients {
  at::Tensor q, k;
  double distance = 0;
};

// The gradient of x, a row (token, head) at a time.
template <class T>
class EntryBackward {
 public:
  using Wide = WideOf<T>;

  EntryBackward(const at::Tensor& x, const ClusterEntry& entry, const EntryGradients& grads)
      : x_(x.stride(2) == 1 || x.size(2) < 2 ? x : x.contiguous()), entry_(entry), factor_(grads.distance) {
    for (const at::Tensor& rows : {grads.q, grads.k}) {
      if (rows.defined()) kept_.push_back(rows.contiguous());
    }
    for (const at::Tensor& rows : kept_) rows_.push_back(rows.const_data_ptr<T>());
    if (factor_ == 0) return;
    const auto type = std::is_same_v<T, double> ? at::kDouble : at::kFloat;
    centroids_ = entry.centroids.detach().to(type).contiguous();
    counts_.resize(static_cast<size_t>(x.size(0)));
    for (const kernels::TokenRange& range : entry.tokens.ranges)
      std::fill_n(counts_.begin() + range.begin, range.length, uint8_t{1});
  }

  at::Tensor run() const {
    at::Tensor out = recycled({x_.size(0), x_.size(1), x_.size(2)}, x_.options());
    T* to = out.template mutable_data_ptr<T>();
    const int64_t rows = x_.size(0) * x_.size(1), width = x_.size(2);
    executor_for(out.numel()).run((rows + kRowsATask - 1) / kRowsATask, [&](int64_t task, int) {
      std::vector<Wide> room(static_cast<size_t>(2 * width));
      for (int64_t row = task * kRowsATask; row < std::min(rows, (task + 1) * kRowsATask); ++row)
        write_row(row, to + row * width, room.data());
    });
    return out;
  }

 private:
  // room: 2 D numbers.
  void write_row(int64_t row, T* to, Wide* room) const {
    const int64_t heads = x_.size(1), width = x_.size(2), token = row / heads, head = row % heads;
    Wide *grad = room, *normal = room + width;
    const bool counts = !counts_.empty() && counts_[static_cast<size_t>(token)] != 0;
    if (!sum_members(row, grad) && !counts) {
      std::fill_n(to, width, T(0));
      return;
    }
    const auto numbers = static_cast<Wide>(width);
    const Wide rstd = normalise(x_.template const_data_ptr<T>() + token * x_.stride(0) + head * x_.stride(1), normal);
    if (counts) {
      const auto factor = static_cast<Wide>(factor_);
      const Wide* nearest = nearest_of(token, head);
      for (int64_t i = 0; i < width; ++i) grad[i] += (normal[i] - nearest[i]) * factor;
    }
    // Of y = (x - mean) / deviation: what is left of dy without its mean and its part along y.
    const Wide level = sum_of<Wide>(width, [&](int64_t i) { return grad[i]; }) / numbers;
    const Wide along = sum_of<Wide>(width, [&](int64_t i) { return grad[i] * normal[i]; }) / numbers;
    for (int64_t i = 0; i < width; ++i) to[i] = static_cast<T>(rstd * (grad[i] - level - normal[i] * along));
  }

  // Writes the vector of x, not rounded to its type, and returns 1 / deviation.
  Wide normalise(const T* x, Wide* normal) const {
    const int64_t width = x_.size(2);
    for (int64_t i = 0; i < width; ++i) normal[i] = static_cast<Wide>(x[i]);
    const auto numbers = static_cast<Wide>(width);
    const Wide mean = sum_of<Wide>(width, [&](int64_t i) { return normal[i]; }) / numbers;
    for (int64_t i = 0; i < width; ++i) normal[i] -= mean;
    const Wide variance = sum_of<Wide>(width, [&](int64_t i) { return normal[i] * normal[i]; }) / numbers;
    const Wide rstd = 1 / std::sqrt(variance + static_cast<Wide>(kRoutingNormEps));
    for (int64_t i = 0; i < width; ++i) normal[i] *= rstd;
    return rstd;
  }

  // Writes the sum of the gradients of the row's members to `sum`. False: zeros, as it has none.
  bool sum_members(int64_t row, Wide* sum) const {
    const MemberRows& members = *entry_.members;
    const auto *starts = members.starts.const_data_ptr<int32_t>() + row,
               *places = members.places.const_data_ptr<int32_t>();
    const int64_t width = x_.size(2), all = members.places.numel();
    std::fill_n(sum, width, Wide(0));
    if (rows_.empty()) return false;
    for (int64_t m = starts[0]; m < starts[1]; ++m) {
      const int64_t at = int64_t{places[m]} * width;
      if (m + kMembersAhead < all) {
        for (const T* rows : rows_) prefetch(rows + int64_t{places[m + kMembersAhead]} * width, width);
      }
      const T *first = rows_.front() + at, *last = rows_.back() + at;
      if (rows_.size() == 1) {
        for (int64_t i = 0; i < width; ++i) sum[i] += static_cast<Wide>(first[i]);
      } else {
        for (int64_t i = 0; i < width; ++i) sum[i] += static_cast<Wide>(first[i]) + static_cast<Wide>(last[i]);
      }
    }
    return starts[1] > starts[0];
  }

  const Wide* nearest_of(int64_t token, int64_t head) const {
    const int64_t tokens = x_.size(0), clusters = centroids_.size(1);
    const int32_t nearest = entry_.tokens.nearest[static_cast<size_t>(head * tokens + token)];
    return centroids_.template const_data_ptr<Wide>() + (head * clusters + nearest) * x_.size(2);
  }

  at::Tensor x_, centroids_;
  const ClusterEntry& entry_;
  std::vector<at::Tensor> kept_;
  std::vector<const T*> rows_;   // gradients of the members' rows, one or two
  std::vector<uint8_t> counts_;  // [T]: whether the token counts for the distance; empty: none does
  double factor_;
};

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
      out.push_back(
          at::scalar_tensor(mean_square_distance(vectors, entry->centroids, entry->tokens), x.options().dtype(type)));
    }
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const at::Tensor x = context->get_saved_variables()[0];
    const auto entry = c10::static_intrusive_pointer_cast<ClusterEntry>(context->saved_data["entry"].toCapsule());
    if (at::GradMode::is_enabled()) return {composed(x, *entry, grads), {}, {}};
    EntryGradients of{grads[0], grads[1]};
    const bool has_distance = grads.size() > 2 && grads[2].defined();
    if (has_distance) of.distance = distance_factor(x, entry->tokens, grads[2].item<double>());
    return {with_row_type(x, [&]<class T>(T) { return EntryBackward<T>(x, *entry, of).run(); }), {}, {}};
  }

 private:
  // The gradient with a graph, of functions that have derivatives of their own.
  static at::Tensor composed(const at::Tensor& x, const ClusterEntry& entry, const variable_list& grads) {
    const at::Tensor vectors = routing_vectors(x);
    const at::Tensor rows = gather_rows(vectors, entry.members);
    variable_list outputs, cotangents;
    const auto add = [&](const at::Tensor& output, const at::Tensor& grad) {
      if (!grad.defined()) return;
      outputs.push_back(output), cotangents.push_back(grad);
    };
    add(rows, grads[0]);
    add(rows, grads[1]);
    if (grads.size() > 2 && grads[2].defined())
      add(distance_to_centroids(vectors, entry.centroids, entry.tokens), grads[2]);
    if (outputs.empty()) return {};
    return torch::autograd::grad(outputs, {x}, cotangents, /*retain_graph=*/true, /*create_graph=*/true)[0];
  }
};

}  // namespace

EnteredRows enter_clusters(const at::Tensor& x, const at::Tensor& vectors,
                           const c10::intrusive_ptr<ClusterEntry>& entry) {
  const variable_list out = EnterClusters::apply(x, vectors, entry);
  return {out[0], out[1], out.size() > 2 ? out[2] : at::Tensor()};
}

}  // namespace fovea::ops
