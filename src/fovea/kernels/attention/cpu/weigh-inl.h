#pragma once
#include "fovea/kernels/attention/cpu/math-inl.h"

// Score rows to weights and back, a struct a transform. Rows are whole vectors; what is no candidate holds -inf.
//   kStats            floats that forward leaves for backward, a row
//   weigh(s, n, st)   s becomes the weights divided by the returned factor
//   gradient(s, g, n, st)   s: scores in, weights out; g: gradient of the weights in, of the scores out
// A row without a candidate gets zeros throughout; NaN among the candidates makes NaN.
namespace fovea::kernels {
namespace {

constexpr float kLowest = -3.4028234e38F;

// The greatest entry, or kLowest; NaN entries may be passed over: what follows brings them back.
inline float row_max(const float* s, int64_t n) {
  F top = set(kLowest);
  for (int64_t j = 0; j < n; j += kLanes) top = max(load(s + j), top);
  return greatest(top);
}

struct SoftmaxRow {
  static constexpr int kStats = 2;  // maximum, 1 / sum

  float weigh(float* s, int64_t n, float* stats) const {
    const float top = row_max(s, n);
    F total = set(0);
    for (int64_t j = 0; j < n; j += kLanes) {
      const F e = exp(load(s + j) - set(top));
      total = total + e;
      store(s + j, e);
    }
    const float all = sum(total);
    const float factor = all == 0 ? 0.0F : 1.0F / all;
    if (stats != nullptr) {
      stats[0] = top;
      stats[1] = factor;
    }
    return factor;
  }

  void gradient(float* s, float* g, int64_t n, const float* stats) {
    const F top = set(stats[0]), factor = set(stats[1]);
    F dot = set(0);
    for (int64_t j = 0; j < n; j += kLanes) {
      const F p = exp(load(s + j) - top) * factor;
      dot = fma(p, load(g + j), dot);
      store(s + j, p);
    }
    const F delta = set(sum(dot));
    for (int64_t j = 0; j < n; j += kLanes) store(g + j, load(s + j) * (load(g + j) - delta));
  }
};

// Weights that do not depend on the row's other scores. `of` gives value and slope at one vector of finite scores.
template <class Function>
struct PointwiseRow {
  static constexpr int kStats = 0;
  Function function;

  float weigh(float* s, int64_t n, float*) const {
    for (int64_t j = 0; j < n; j += kLanes) {
      const F x = load(s + j);
      store(s + j, select(less_equal(x, set(-kInfinity)), set(0), function.value(x)));
    }
    return 1.0F;
  }

  void gradient(float* s, float* g, int64_t n, const float*) {
    for (int64_t j = 0; j < n; j += kLanes) {
      const F x = load(s + j);
      const M masked = less_equal(x, set(-kInfinity));
      store(s + j, select(masked, set(0), function.value(x)));
      store(g + j, select(masked, set(0), function.slope(x) * load(g + j)));
    }
  }
};

struct ReluFunction {
  F value(F x) const { return max(set(0), x); }  // NaN stays: the second argument
  F slope(F x) const { return select(less(set(0), x), set(1.0F), select(is_nan(x), x, set(0))); }
};
struct GeluFunction {
  F value(F x) const { return x * normal(x).cdf; }
  F slope(F x) const {
    const Normal at = normal(x);
    return fma(x * set(0.398942280F), at.bell, at.cdf);
  }
};
struct LeakyReluFunction {
  float negative = 0;
  F value(F x) const { return select(less(x, set(0)), x * set(negative), x); }
  F slope(F x) const { return select(less(set(0), x), set(1.0F), select(is_nan(x), x, set(negative))); }
};

// alpha-entmax: p = y^c, y = max((alpha-1) s - tau, 0), c = 1 / (alpha-1), sum p = 1.
struct EntmaxRow {
  static constexpr int kStats = 2;  // greatest z = (alpha-1) s, tau - greatest z
  float alpha = 1.5F;
  bool wants_alpha = false;
  double grad_alpha = 0;  // sum over the rows seen

  float power_of() const { return 1.0F / (alpha - 1.0F); }

  // sum y^c and sum y^(c-1) at tau.
  struct Sums {
    float weights, slopes;
  };
  Sums sums(const float* z, int64_t n, float tau) const {
    const float c = power_of();
    const F t = set(tau);
    F weights = set(0), slopes = set(0);
    for (int64_t j = 0; j < n; j += kLanes) {
      const F y = max(set(0), load(z + j) - t);
      const M on = inverse(less_equal(y, set(0)));  // NaN counts
      const F u = c == 1.0F ? set(1.0F) : c == 2.0F ? y : power(y, c - 1.0F);
      slopes = slopes + select(on, u, set(0));
      weights = weights + select(on, u * y, set(0));
    }
    return {sum(weights), sum(slopes)};
  }

  // z: greatest entry 0. The c-norm of y less one is convex in tau and nearly straight, so Newton's steps from below
  // (tau = -1, where the norm is at least one) rise to the root without passing it; c < 1 (alpha > 2) is halved.
  float solve(const float* z, int64_t n) const {
    const float c = power_of();
    float tau = -1.0F;
    Sums at = sums(z, n, tau);
    if (at.weights == 0) return 0;  // no candidate
    if (std::isnan(at.weights)) return at.weights;
    if (c < 1.0F) return halve(z, n);
    for (int step = 0; step < 60; ++step) {
      const float excess = c == 1.0F ? at.weights - 1.0F : at.weights - std::pow(at.weights, 1.0F - 1.0F / c);
      const float next = tau + excess / at.slopes;
      if (!(next > tau)) break;
      const bool last = next - tau < 1e-7F;
      tau = next;
      if (last) break;
      at = sums(z, n, tau);
    }
    return tau;
  }
  float halve(const float* z, int64_t n) const {
    float low = -1.0F, high = 0.0F;
    for (int step = 0; step < 40; ++step) {
      const float middle = 0.5F * (low + high);
      (sums(z, n, middle).weights >= 1.0F ? low : high) = middle;
    }
    return low;
  }

  float weigh(float* s, int64_t n, float* stats) const {
    for (int64_t j = 0; j < n; j += kLanes) store(s + j, load(s + j) * set(alpha - 1.0F));
    const float top = row_max(s, n);
    for (int64_t j = 0; j < n; j += kLanes) store(s + j, load(s + j) - set(top));
    const float tau = solve(s, n);
    const float c = power_of();
    for (int64_t j = 0; j < n; j += kLanes) store(s + j, power(max(set(0), load(s + j) - set(tau)), c));
    if (stats != nullptr) {
      stats[0] = top;
      stats[1] = tau;
    }
    return 1.0F;
  }

  // ds = U (dp - sum(U dp) / sum(U)), U = p^(2-alpha) = y^(c-1) on the support (Peters et al. 2019, Prop. 2).
  void gradient(float* s, float* g, int64_t n, const float* stats) {
    const float c = power_of();
    const auto y_at = [&](int64_t j) {
      return max(set(0), (load(s + j) * set(alpha - 1.0F) - set(stats[0])) - set(stats[1]));
    };
    const auto u_of = [&](F y) {
      return select(less_equal(y, set(0)), set(0), c == 1.0F ? set(1.0F) : c == 2.0F ? y : power(y, c - 1.0F));
    };
    F dot = set(0), total = set(0);
    for (int64_t j = 0; j < n; j += kLanes) {
      const F u = u_of(y_at(j));
      dot = fma(u, load(g + j), dot);
      total = total + u;
    }
    const float all = sum(total);
    const float delta = all == 0 ? 0.0F : sum(dot) / all;
    if (wants_alpha) add_alpha_gradient(s, g, n, stats, all);
    for (int64_t j = 0; j < n; j += kLanes) {
      const F y = y_at(j), u = u_of(y);
      store(g + j, u * (load(g + j) - set(delta)));
      store(s + j, u * y);
    }
  }

  // sum_i dp_i [(p_i - u_i) / (alpha-1)^2 - (p_i log p_i - u_i sum_j p_j log p_j) / (alpha-1)], u = U / sum(U)
  // (Correia, Niculae, Martins 2019, Prop. 3).
  void add_alpha_gradient(const float* s, const float* g, int64_t n, const float* stats, float total) {
    if (total == 0) return;
    const float c = power_of();
    const F to_log = set(c * 0.693147181F);  // log p = c log y
    F linear = set(0), weighted = set(0), shares = set(0), entropy = set(0);
    for (int64_t j = 0; j < n; j += kLanes) {
      const F y = max(set(0), (load(s + j) * set(alpha - 1.0F) - set(stats[0])) - set(stats[1]));
      const M on = inverse(less_equal(y, set(0)));
      const F u = select(on, c == 1.0F ? set(1.0F) : power(y, c - 1.0F), set(0));
      const F p = u * y;
      const F surprise = select(on, p * (log2(y) * to_log), set(0));
      const F gradient_of = load(g + j);
      const F share = u / set(total);
      linear = fma(gradient_of, p - share, linear);
      weighted = fma(gradient_of, surprise, weighted);
      shares = fma(gradient_of, share, shares);
      entropy = entropy + surprise;
    }
    grad_alpha += double{sum(linear)} * c * c - (double{sum(weighted)} - double{sum(shares)} * sum(entropy)) * c;
  }
};

}  // namespace
}  // namespace fovea::kernels
