#include "fovea/nn/query_factors.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/softplus.h>

#include <vector>

namespace fovea::nn {
namespace {

// SSMax's number of a head stays above 0, as a negative one would turn the order of the scores.
constexpr double kLeastWeight = 1e-3;

}  // namespace

QueryFactors::QueryFactors(const AttentionParameters& needs, const Shape& shape, const InitScope& scope) {
  if (needs.scale_by_head)
    weight_ = register_parameter(
        "weight", constant_tensor({shape.heads}, 1, scope) + normal_tensor({shape.heads}, 0.01, scope / "weight"));
  if (!needs.scale_by_input) return;
  const Linear::Shape product = {shape.width, shape.heads, xavier_limit(shape.width, shape.heads), false};
  base_ = register_module("base", std::make_shared<Linear>(product, scope / "base"));
  power_ = register_module("power", std::make_shared<Linear>(product, scope / "power"));
}

at::Tensor QueryFactors::operator()(const LayerSpec& mechanism, const at::Tensor& counts, const at::Tensor& x) const {
  const at::ScalarType model = weight_.defined() ? weight_.scalar_type() : base_->weight.scalar_type();
  const at::ScalarType type = model == at::kDouble ? at::kDouble : at::kFloat;
  // A query without candidates counts as one with a single one: its output is zero.
  const at::Tensor n = counts.to(type).clamp_min(1);
  const at::Tensor base = base_ ? at::softplus((*base_)(x).to(type)) : at::Tensor();
  const at::Tensor power = power_ ? (*power_)(x).to(type).tanh() * 2 : at::Tensor();
  std::vector<at::Tensor> parts;
  int64_t head = 0;
  for (const auto& [num_heads, spec] : mechanism) {
    const auto own = [&](const at::Tensor& all, int64_t dim) { return all.narrow(dim, head, num_heads); };
    const at::Tensor candidates = own(n, 1);
    if (!spec.scale) {
      parts.push_back(at::ones_like(candidates));
    } else if (scales_by_input(spec.transform)) {
      parts.push_back(own(base, 1) * ((candidates + 1).log().log() * own(power, 1)).exp() + 1);
    } else {
      parts.push_back(candidates.log() * own(weight_, 0).to(type).clamp_min(kLeastWeight));
    }
    head += num_heads;
  }
  return parts.size() == 1 ? parts.front() : at::cat(parts, 1);
}

}  // namespace fovea::nn
