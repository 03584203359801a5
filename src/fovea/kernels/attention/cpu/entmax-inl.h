#pragma once
#include "fovea/kernels/attention/cpu/entmax_solve.h"
#include "fovea/kernels/simd/math-inl.h"
// Include <algorithm>, <cmath> and <type_traits> before.

// The curve of alpha-entmax over vectors; entmax_solve.h has its definition.
namespace fovea::kernels {
namespace {

// The powers that have shorter ways, those above 8, where y is so near to 1 that its rounding counts (is_flat), and
// those below 1, where it may be so near to 0 (is_steep).
enum class EntmaxCurve : uint8_t { kSparsemax, kSquare, kPower, kGreatPower, kSteep };

// work(std::integral_constant<EntmaxCurve, ...>)
template <class Work>
auto with_curve(const EntmaxPower& power, const Work& work) {
  if (power.c == 1) return work(std::integral_constant<EntmaxCurve, EntmaxCurve::kSparsemax>());
  if (power.is_steep()) return work(std::integral_constant<EntmaxCurve, EntmaxCurve::kSteep>());
  if (power.c == 2) return work(std::integral_constant<EntmaxCurve, EntmaxCurve::kSquare>());
  if (power.is_flat()) return work(std::integral_constant<EntmaxCurve, EntmaxCurve::kGreatPower>());
  return work(std::integral_constant<EntmaxCurve, EntmaxCurve::kPower>());
}

struct EntmaxPoint {
  F y;       // [1 + (alpha - 1) (s - top - mu)]_+; NaN stays; not for kSteep
  F slope;   // y^(c - 1), which is weight^(2 - alpha), 0 outside the support; kSteep: entmax_derivative()
  F weight;  // y^c
};

// log2(1 + u) with the digits of u that 1 + u loses.
inline F log2_of_sum(F u, F y) { return fma((u - (y - set(1))) / y, set(1.44269504F), log2(y)); }

// weight^(2 - alpha) for alpha other than 2 and 1.5, cut at kMostEntmaxDerivative, 0 outside the support; NaN stays.
inline F entmax_derivative(const EntmaxPower& entmax, F weight) {
  const F most = set(static_cast<float>(kMostEntmaxDerivative));
  return select(less(set(0), weight), min(most, power(weight, 1 - entmax.slope)), weight);
}

// The curve of a row whose root is known, over its scores less the greatest. blend: see entmax_solve.h.
template <EntmaxCurve kCurve>
class EntmaxRowCurve {
 public:
  EntmaxRowCurve(const EntmaxPower& power, float root, float blend = 1)
      : power_(power), root_(root), blend_(blend), upper_(power, root), lower_(power, next_below(root)) {}

  EntmaxPoint at(F below) const {
    if constexpr (kCurve == EntmaxCurve::kSteep) return steep_at(below);
    const F y = max(set(0), y_of(below));
    const M off = less_equal(y, set(0));  // NaN counts as on
    const auto point = [&](F slope) { return EntmaxPoint{y, slope, slope * y}; };
    if constexpr (kCurve == EntmaxCurve::kSparsemax) return point(select(off, set(0), select(is_nan(y), y, set(1))));
    if constexpr (kCurve == EntmaxCurve::kSquare) return point(y);
    if constexpr (kCurve == EntmaxCurve::kPower) return point(select(off, set(0), power(y, power_.c - 1)));
    const F raised = exp2(set(power_.c - 1) * log2_of_sum(u_of(below), y));
    return point(select(off, set(0), select(is_nan(y), y, raised)));
  }
  // -log(y) on the support, -(alpha - 1) log(weight).
  F minus_log_y(F below, const EntmaxPoint& at) const {
    if constexpr (kCurve == EntmaxCurve::kSteep) return log2(at.weight) * set(-0.693147181F * power_.slope);
    return log2_of_sum(u_of(below), at.y) * set(-0.693147181F);
  }

 private:
  static float next_below(float root) { return kCurve == EntmaxCurve::kSteep ? std::nextafter(root, 0.0F) : 0; }

  // kSteep: the weights with one P.
  struct Steep {
    Steep(const EntmaxPower& entmax, float p)
        : greatest(p), y_top(kCurve == EntmaxCurve::kSteep ? std::pow(p, entmax.slope) : 0) {}
    float greatest, y_top;
    // Scores that equal the greatest get its weight, though its y may be below float's range.
    F weight(const EntmaxPower& entmax, F below) const {
      const M is_top = both(less_equal(below, set(0)), less_equal(set(0), below));
      const F y = max(set(0), fma(set(entmax.slope), below, set(y_top)));
      return select(is_top, set(greatest), power(y, entmax.c));
    }
  };

  F y_of(F below) const {
    if constexpr (kCurve == EntmaxCurve::kGreatPower) return set(1) + u_of(below);
    return fma(set(power_.slope), below, set(root_));
  }
  F u_of(F below) const {  // y - 1
    if constexpr (kCurve == EntmaxCurve::kGreatPower) return set(power_.slope) * (below - set(root_));
    return fma(set(power_.slope), below, set(root_ - 1));
  }
  EntmaxPoint steep_at(F below) const {
    F weight = upper_.weight(power_, below);
    if (blend_ < 1) {
      const F least = lower_.weight(power_, below);
      weight = fma(set(blend_), weight - least, least);
    }
    return {set(0), entmax_derivative(power_, weight), weight};
  }

  EntmaxPower power_;
  float root_, blend_;
  Steep upper_, lower_;
};

struct EntmaxSums {
  float weights = 0, slopes = 0;
};

// The last vector of values is filled up with -inf.
template <EntmaxCurve kCurve>
EntmaxSums entmax_sums(const EntmaxPower& power, const EntmaxScores& row, float root, float blend = 1) {
  const EntmaxRowCurve<kCurve> curve(power, root, blend);
  F weights = set(0), slopes = set(0);
  for (int64_t i = 0; i < row.count; i += kLanes) {
    const EntmaxPoint at = curve.at((load(row.values + i) - set(row.top)) * set(row.unit));
    slopes = slopes + at.slope;
    weights = weights + at.weight;
  }
  return {sum(weights), sum(slopes)};
}

// (w - w^(2 - alpha)) / (alpha - 1), of the sum of the weights; with the slopes it makes Newton's step for the c-norm.
template <EntmaxCurve kCurve>
float entmax_excess(const EntmaxPower& power, float weights) {
  if constexpr (kCurve == EntmaxCurve::kSparsemax) return weights - 1;
  if constexpr (kCurve == EntmaxCurve::kSquare) return 2 * (weights - std::sqrt(weights));
  return -weights * std::expm1(-power.slope * std::log(weights)) / power.slope;
}

// A step of the search and the sum of the weights where it began.
struct EntmaxStep {
  float size = 0, weights = 0;
};

// Whether the step after this one will be below `near`: it is about the square of this one, times what this and the
// previous one show of the curve. Nearer to the root the curve bends more, for c = 2 and a fixed support by w^(-3/2),
// hence the weights. For c < 2 its second derivative has no bound.
inline bool is_last_step(const EntmaxPower& power, float step, const EntmaxStep& previous, float near) {
  const float ratio = step / previous.size;
  return power.c >= 2 && step * ratio * ratio * previous.weights <= near;
}

constexpr float kRounding = 0x1p-25F;

// The mu whose weights sum to 1, from below, for c >= 1: the c-norm of y is convex in mu and nearly straight, so that
// Newton's steps from below, where it is at least 1, pass the root by no more than rounding.
template <EntmaxCurve kCurve>
float entmax_mu(const EntmaxPower& power, const EntmaxScores& row) {
  constexpr int kRounds = 60;
  const float tolerance = std::max(row.tolerance, kRounding);
  float mu = row.start;
  EntmaxStep previous;
  for (int round = 0; round < kRounds; ++round) {
    const EntmaxSums at = entmax_sums<kCurve>(power, row, mu);
    if (at.weights == 0) return row.start;  // no candidate
    if (std::isnan(at.weights)) return at.weights;
    const float near = tolerance * std::max(1.0F, mu);
    const float step = entmax_excess<kCurve>(power, at.weights) / at.slopes;
    const float next = mu + step;
    if (!(step > near) || next == mu) return mu;  // a step above `near` may be lost in mu's rounding
    if (round > 0 && is_last_step(power, step, previous, near)) return next;
    mu = next, previous = {step, at.weights};
  }
  return mu;
}

// Finds the Y whose weights sum to 1, for c from 1 to 8, by the same steps. The error that a sum of many weights near 1
// rounds away is small for mu but may be large for Y, so the last steps may go either way.
template <EntmaxCurve kCurve>
float entmax_base(const EntmaxPower& power, const EntmaxScores& row) {
  constexpr int kRounds = 60;
  // Steps are the square of the steps before, times a factor; steps of rounding are not smaller than the last.
  constexpr float kEnough = 0x1p-22F, kSmall = 0x1p-12F;
  float y = 1 - power.slope * row.start;
  EntmaxStep previous;
  for (int round = 0; round < kRounds; ++round) {
    const EntmaxSums at = entmax_sums<kCurve>(power, row, y);
    if (at.weights == 0) return y;  // no candidate
    if (std::isnan(at.weights)) return at.weights;
    const float mu_step = entmax_excess<kCurve>(power, at.weights) / at.slopes, step = power.slope * mu_step;
    const float mu_near = row.tolerance * std::max(1.0F, power.c * (1 - y)), size = std::abs(step);
    if (row.tolerance > 0 && !(mu_step > mu_near)) return y;
    float next = y - step;
    if (size <= kEnough * y || (round > 0 && size < kSmall * y && 2 * std::abs(mu_step) >= std::abs(previous.size)))
      return next;
    const float near = row.tolerance > 0 ? mu_near : kRounding * y * power.c;
    if (round > 0 && is_last_step(power, mu_step, previous, near)) return next;
    // The greatest weighs at least 1 / count.
    if (next < kSmall * y) next = std::max(next, std::pow(static_cast<float>(row.count), -power.slope));
    y = next, previous = {mu_step, at.weights};
  }
  return y;
}

// The greatest weight P with which the weights sum to 1, from above, for c < 1: Newton's steps by
// dp / dP = (P / p)^(alpha - 2), kept between bounds, as the sum bends wherever a key joins the support.
inline float entmax_greatest(const EntmaxPower& power, const EntmaxScores& row) {
  constexpr int kRounds = 90;
  const float tolerance = std::max(row.tolerance, kRounding);
  float low = 0, high = 1, p = 1;
  for (int round = 0; round < kRounds; ++round) {
    const EntmaxSums at = entmax_sums<EntmaxCurve::kSteep>(power, row, p);
    if (std::isnan(at.weights)) return at.weights;
    (at.weights >= 1 ? high : low) = p;
    const float near = tolerance * p, excess = at.weights - 1;
    // The sum grows at least as fast as P.
    if (high - low <= near || (excess >= 0 && excess <= near)) break;
    // From below, the step goes a bit further: there `high` closes in as well.
    float next = p - excess / (at.slopes * std::pow(p, power.slope - 1)) + (excess < 0 ? near : 0);
    // Every third time in the middle: Newton's steps may come near from one side alone.
    if (round % 3 == 2 || !(next > low && next < high)) next = low + (high - low) / 2;
    if (!(next > low && next < high)) break;
    p = next;
  }
  return high;
}

template <EntmaxCurve kCurve>
float entmax_root(const EntmaxPower& power, const EntmaxScores& row) {
  if constexpr (kCurve == EntmaxCurve::kSteep) return entmax_greatest(power, row);
  if constexpr (kCurve == EntmaxCurve::kGreatPower) return entmax_mu<kCurve>(power, row);
  return entmax_base<kCurve>(power, row);
}

template <EntmaxCurve kCurve>
float entmax_blend(const EntmaxPower& power, const EntmaxScores& row, float root) {
  if constexpr (kCurve != EntmaxCurve::kSteep) return 1;
  const float upper = entmax_sums<kCurve>(power, row, root, 1).weights;
  const float lower = entmax_sums<kCurve>(power, row, root, 0).weights;
  return upper > lower ? std::clamp((1 - lower) / (upper - lower), 0.0F, 1.0F) : 1;
}

// A row's part of alpha's gradient. With L = log p, U = p^(2 - alpha), b = alpha - 1, and sums over the row's p:
//     dp_i = [Q p_i - p_i q_i + R p_i L_i - M p_i r_i] / sum U,    M = sum p L,  Q = sum p q,  R = sum p r,
//     p q = (U - p + b p L) / b^2,    p r = (p - U) / b,
// which is proposition 3 of Correia, Niculae, Martins (2019), p and U / sum U taken together: as alpha goes to 1 their
// difference over b^2 leaves no digits, while p q goes to p L^2 / 2 and p r to p L.
class EntmaxAlpha {
 public:
  explicit EntmaxAlpha(const EntmaxPower& power) : power_(power) {}

  // minus_log_y: -b L; grads: of the weights, less any constant of the row.
  void add(F minus_log_y, const EntmaxPoint& at, F grads) {
    const M off = less_equal(at.weight, set(0));
    const F t = select(off, set(0), max(set(0), minus_log_y));
    const F p = at.weight, log_p = t * set(-power_.c);
    // (e^t - 1 - t) / t^2, by its series or from e^t = 1 / y
    F series = set(1.0F / 40320);
    for (const float factorial : {5040.0F, 720.0F, 120.0F, 24.0F, 6.0F, 2.0F})
      series = fma(series, t, set(1.0F / factorial));
    const M near = less(t, set(0.5F));
    const F q = select(near, p * log_p * log_p * series, (at.slope - p - p * t) * set(power_.c * power_.c));
    const F r = select(near, p * log_p * fma(t, series, set(1)), (p - at.slope) * set(power_.c));
    const F pl = p * log_p;
    mass_ = mass_ + at.slope, entropy_ = entropy_ + pl, q_ = q_ + q, r_ = r_ + r;
    grad_p_ = fma(grads, p, grad_p_), grad_pl_ = fma(grads, pl, grad_pl_);
    grad_q_ = fma(grads, q, grad_q_), grad_r_ = fma(grads, r, grad_r_);
  }
  double gradient() const {
    const double mass = sum(mass_);
    if (mass == 0) return 0;
    return (double{sum(q_)} * sum(grad_p_) - sum(grad_q_) + double{sum(r_)} * sum(grad_pl_) -
            double{sum(entropy_)} * sum(grad_r_)) /
           mass;
  }

 private:
  EntmaxPower power_;
  F mass_ = set(0), entropy_ = set(0), q_ = set(0), r_ = set(0);
  F grad_p_ = set(0), grad_pl_ = set(0), grad_q_ = set(0), grad_r_ = set(0);
};

}  // namespace
}  // namespace fovea::kernels
