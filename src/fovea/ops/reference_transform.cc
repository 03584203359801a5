#include "fovea/ops/reference_transform.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/log.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/threshold_backward.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <vector>

#include "fovea/spec/transforms.h"

namespace fovea::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// With scores shifted to a maximum of 0 the threshold tau lies in [-1, 0), so what is at -2 is never in the support.
constexpr double kOutside = -2;

at::Tensor filled(const at::Tensor& x, const at::Tensor& dropped, double value) {
  return dropped.defined() ? x.masked_fill(dropped, value) : x;
}

void fill(at::Tensor& x, const at::Tensor& dropped, double value) {
  if (dropped.defined()) x.masked_fill_(dropped, value);
}

at::Tensor row_sum(const at::Tensor& x) { return x.sum(at::IntArrayRef{-1}, /*keepdim=*/true); }

// [H, 1, 1] against [G, H, N_q, N_k].
at::Tensor per_head(const at::Tensor& alpha) { return alpha.view({-1, 1, 1}); }

// factor (s - max s), with what is dropped or can't be in the support at kOutside. Rows without a pair: all there.
at::Tensor shifted(const ScoreMatrix& rows, const at::Tensor& factor) {
  const at::Tensor masked = filled(rows.scores, rows.dropped, -kInfinity);
  at::Tensor z = (masked - masked.amax({-1}, true)).mul_(factor);
  fill(z, rows.dropped, kOutside);
  return z.clamp_min_(kOutside);
}

// The support's size from the condition that holds on a prefix of the sorted row; at least 1, NaN rows too.
at::Tensor last_true(const at::Tensor& holds) { return row_sum(holds).sub_(1).clamp_min_(0); }

at::Tensor ranks(const at::Tensor& sorted) { return at::arange(1, sorted.size(-1) + 1, sorted.options()); }

// Exact, by sorting (Martins, Astudillo 2016, algorithm 1).
at::Tensor sparsemax_tau(const at::Tensor& z) {
  const at::Tensor sorted = std::get<0>(z.sort(-1, /*descending=*/true));
  const at::Tensor rank = ranks(sorted), sums = sorted.cumsum(-1) - 1;
  return (sums / rank).gather(-1, last_true(rank * sorted > sums));
}

// Exact, by sorting (Peters, Niculae, Martins 2019, algorithm 2); z is half the shifted scores.
at::Tensor entmax15_tau(const at::Tensor& z) {
  const at::Tensor sorted = std::get<0>(z.sort(-1, /*descending=*/true));
  const at::Tensor rank = ranks(sorted);
  const at::Tensor mean = sorted.cumsum(-1) / rank, mean_square = sorted.square().cumsum(-1) / rank;
  const at::Tensor spread = rank * (mean_square - mean.square());
  const at::Tensor tau = mean - ((1 - spread) / rank).clamp_min_(0).sqrt_();
  return tau.gather(-1, last_true(tau <= sorted));
}

// Any alpha, in double, for z = (alpha - 1) (s - top) and the exponent 1 / (alpha - 1).
// The unknown is P, the weight of the greatest: tau = -P^(alpha - 1) may be nearer to 0 than halvings of [-1, 0] come.
at::Tensor entmax_weights(const at::Tensor& z, const at::Tensor& exponent, bool may_be_steep) {
  // Above alpha = 2 by halvings alone: Newton's steps end where a key joins the support.
  constexpr int kHalvings = 26, kNewtonSteps = 6, kSteepHalvings = 54;
  const int rounds = may_be_steep ? kSteepHalvings : kHalvings + kNewtonSteps;
  const at::Tensor power = exponent.reciprocal(), steep = exponent < 1;
  const auto weights = [&](const at::Tensor& p) { return (z + p.pow(power)).clamp_min_(0).pow_(exponent); };
  at::Tensor low = at::zeros_like(z.amax({-1}, true)), high = at::ones_like(low), p = at::full_like(low, 0.5);
  for (int i = 0; i < rounds; ++i) {
    const at::Tensor from = p, w = weights(from), excess = row_sum(w) - 1, reached = excess >= 0;
    high = at::where(reached, from, high);
    low = at::where(reached, low, from);
    p = low + (high - low) / 2;
    if (i < kHalvings) continue;
    // d weight / dP = (P / weight)^(alpha - 2), without bound above alpha = 2
    const at::Tensor slope = at::where(w > 0, (from / w).pow_(power - 1), at::zeros_like(w));
    const at::Tensor next = from - excess / row_sum(slope);
    p = at::where(at::isfinite(next).logical_and(steep.logical_not()), next.clamp(low, high), p);
  }
  if (!may_be_steep) return weights(p);
  // Above alpha = 2 a key at the edge of the support may weigh 0 with `low` and much with `high`: in between, so that
  // the sum is 1.
  const at::Tensor least = weights(low), more = weights(high) - least, added = row_sum(more);
  const at::Tensor blend = at::where(added > 0, (1 - row_sum(least)) / added, at::ones_like(added)).clamp_(0, 1);
  return at::where(steep, least + blend * more, weights(p));
}

// Whether some alpha is above 2. Reading a learned one would make a device wait, so there it may always be.
bool may_be_steep(const Entmax& transform, const at::Tensor& alpha) {
  if (!transform.learned) return transform.alpha > 2;
  return !alpha.device().is_cpu() || (alpha > 2).any().item<bool>();
}

at::Tensor entmax(const Entmax& transform, const ScoreMatrix& rows, const at::Tensor& alpha) {
  ScoreMatrix wide{rows.scores.to(at::kDouble), rows.dropped, {}};
  const at::Tensor exponent = 1 / (alpha - 1);
  const at::Tensor z = shifted(wide, alpha - 1);
  const at::Tensor weights = entmax_weights(z, exponent, may_be_steep(transform, alpha)) +
                             row_sum(z) * 0;  // a NaN in the row reaches all of it
  return weights.to(rows.scores.scalar_type());
}

at::Tensor alpha_of(const Entmax& transform, const ScoreMatrix& rows) {
  if (transform.learned) return per_head(rows.alpha);
  return at::full({1, 1, 1}, transform.alpha, rows.scores.options().dtype(at::kDouble));
}

at::Tensor forward(const Softmax&, const ScoreMatrix& rows) {
  return at::_softmax(filled(rows.scores, rows.dropped, -kInfinity), -1, /*half_to_float=*/false);
}
// The sink's score in its rows, [H or 1, 1, 1].
at::Tensor sink_of(const Sink& sink, const ScoreMatrix& rows) {
  if (sink.learned) return per_head(rows.alpha).to(rows.scores.scalar_type());
  return at::full({1, 1, 1}, sink.score, rows.scores.options());
}
// The scores with the sink's as one more key.
at::Tensor with_sink(const Sink& sink, const ScoreMatrix& rows) {
  const at::Tensor masked = filled(rows.scores, rows.dropped, -kInfinity);
  std::vector<int64_t> column(masked.sizes().begin(), masked.sizes().end());
  column.back() = 1;
  return at::cat({masked, sink_of(sink, rows).expand(column)}, -1);
}
at::Tensor forward(const Sink& sink, const ScoreMatrix& rows) {
  const at::Tensor weights = at::_softmax(with_sink(sink, rows), -1, /*half_to_float=*/false);
  return weights.narrow(-1, 0, rows.scores.size(-1)).contiguous();
}
at::Tensor forward(const Sparsemax&, const ScoreMatrix& rows) {
  const at::Tensor z = shifted(rows, at::ones({}, rows.scores.options()));
  return (z - sparsemax_tau(z)).clamp_min_(0);
}
at::Tensor forward(const Entmax& transform, const ScoreMatrix& rows) {
  if (transform.learned || transform.alpha != 1.5) return entmax(transform, rows, alpha_of(transform, rows));
  const at::Tensor z = shifted(rows, at::full({}, 0.5, rows.scores.options()));
  return (z - entmax15_tau(z)).clamp_min_(0).square_();
}
at::Tensor forward(const Relu&, const ScoreMatrix& rows) { return at::relu(rows.scores); }
at::Tensor forward(const Gelu&, const ScoreMatrix& rows) { return at::gelu(rows.scores); }
at::Tensor forward(const Sigmoid& transform, const ScoreMatrix& rows) {
  return (rows.scores + transform.bias).sigmoid_();
}
at::Tensor forward(const LeakyRelu& transform, const ScoreMatrix& rows) {
  return at::leaky_relu(rows.scores, transform.negative);
}

// ds = u (dp - sum(u dp) / sum(u)), the Jacobian of every map onto the simplex here; u = p for softmax.
at::Tensor simplex_backward(const at::Tensor& u, const at::Tensor& grad) {
  const at::Tensor mass = row_sum(u);
  return u * (grad - row_sum(u * grad) / at::where(mass == 0, at::ones_like(mass), mass));
}

at::Tensor entmax_u(const at::Tensor& p, const at::Tensor& alpha) {
  const at::Tensor u = p.pow(2 - alpha).clamp_max(kMostEntmaxDerivative);
  return at::where(p == 0, at::zeros_like(p), u);
}

// d p / d alpha (Correia, Niculae, Martins 2019, proposition 1), summed against the gradient, one value per head.
at::Tensor alpha_backward(const at::Tensor& p, const at::Tensor& u, const at::Tensor& grad, const at::Tensor& alpha) {
  const at::Tensor mass = row_sum(u);
  const at::Tensor skewed = u / at::where(mass == 0, at::ones_like(mass), mass);
  const at::Tensor entropy = at::where(p == 0, at::zeros_like(p), p * p.log());
  const at::Tensor beta = alpha - 1;
  const at::Tensor slope = (p - skewed) / beta.square() - (entropy - skewed * row_sum(entropy)) / beta;
  return (grad * slope).sum(at::IntArrayRef{0, 2, 3});
}

TransformGradient backward(const Softmax&, const ScoreMatrix&, const at::Tensor& p, const at::Tensor& grad) {
  return {p * (grad - row_sum(p * grad)), {}};
}
TransformGradient backward(const Sink& sink, const ScoreMatrix& rows, const at::Tensor& p, const at::Tensor& grad) {
  const at::Tensor mean = row_sum(p * grad);
  TransformGradient result{p * (grad - mean), {}};
  if (!sink.learned) return result;
  const at::Tensor of_sink = at::_softmax(with_sink(sink, rows), -1, /*half_to_float=*/false).narrow(-1, p.size(-1), 1);
  result.alpha = -(of_sink * mean).to(at::kDouble).sum(at::IntArrayRef{0, 2, 3});
  return result;
}
TransformGradient backward(const Sparsemax&, const ScoreMatrix&, const at::Tensor& p, const at::Tensor& grad) {
  return {simplex_backward((p != 0).to(p.scalar_type()), grad), {}};
}
TransformGradient backward(const Entmax& transform, const ScoreMatrix& rows, const at::Tensor& p,
                           const at::Tensor& grad) {
  if (!transform.learned && transform.alpha == 1.5) return {simplex_backward(p.sqrt(), grad), {}};
  const at::Tensor alpha = alpha_of(transform, rows);
  const at::Tensor wide = p.to(at::kDouble), wide_grad = grad.to(at::kDouble);
  const at::Tensor u = entmax_u(wide, alpha);
  TransformGradient result{simplex_backward(u, wide_grad).to(p.scalar_type()), {}};
  if (transform.learned) result.alpha = alpha_backward(wide, u, wide_grad, alpha);
  return result;
}
TransformGradient backward(const Relu&, const ScoreMatrix&, const at::Tensor& p, const at::Tensor& grad) {
  return {at::threshold_backward(grad, p, 0), {}};
}
TransformGradient backward(const Gelu&, const ScoreMatrix& rows, const at::Tensor&, const at::Tensor& grad) {
  return {at::gelu_backward(grad, rows.scores), {}};
}
TransformGradient backward(const Sigmoid&, const ScoreMatrix&, const at::Tensor& p, const at::Tensor& grad) {
  return {grad * p * (1 - p), {}};
}
TransformGradient backward(const LeakyRelu& transform, const ScoreMatrix& rows, const at::Tensor&,
                           const at::Tensor& grad) {
  return {at::where(rows.scores > 0, grad, grad * transform.negative), {}};
}

}  // namespace

at::Tensor transform_forward(const Transform& transform, const ScoreMatrix& rows) {
  at::Tensor weights = std::visit([&](const auto& t) { return forward(t, rows); }, transform);
  fill(weights, rows.dropped, 0);
  return weights;
}

TransformGradient transform_backward(const Transform& transform, const ScoreMatrix& rows, const at::Tensor& weights,
                                     const at::Tensor& grad_weights) {
  const at::Tensor grad = filled(grad_weights, rows.dropped, 0);
  TransformGradient result = std::visit([&](const auto& t) { return backward(t, rows, weights, grad); }, transform);
  fill(result.scores, rows.dropped, 0);
  return result;
}

}  // namespace fovea::ops
