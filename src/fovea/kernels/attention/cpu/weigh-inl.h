#pragma once
#include "fovea/kernels/attention/cpu/math-inl.h"

// Score rows to weights and back, a struct a transform. Rows are whole vectors; what is no candidate holds -inf.
//   kStats                      floats that forward leaves for backward, a row
//   weigh(rows, factors)        scores become the weights divided by the row's factor
//   gradient(rows, grads)       scores become weights; grads, of the weights, become those of the scores
// A row without a candidate gets zeros throughout; NaN among the candidates makes NaN.
namespace fovea::kernels {
namespace {

constexpr float kLowest = -3.4028234e38F;

// Rows of scores and what is kept of each for backward.
template <class Stats>
struct ScoreRows {
  float* s = nullptr;
  int64_t stride = 0, n = 0;  // n: floats of a row in use
  Stats* stats = nullptr;     // may be null in forward
  int64_t stats_step = 0;
  float* row(int64_t r) const { return s + r * stride; }
  Stats* stats_of(int64_t r) const { return stats == nullptr ? nullptr : stats + r * stats_step; }
  ScoreRows from(int64_t r) const { return {row(r), stride, n, stats_of(r), stats_step}; }
};
using NewRows = ScoreRows<float>;
using OldRows = ScoreRows<const float>;

// The greatest entry, or kLowest; NaN entries may be passed over: what follows brings them back.
inline float row_max(const float* s, int64_t n) {
  F top = set(kLowest);
  for (int64_t j = 0; j < n; j += kLanes) top = max(load(s + j), top);
  return greatest(top);
}

// Rows four at a time: their chains of sums and exponentials run side by side.
struct SoftmaxRow {
  static constexpr int kStats = 2;  // maximum, 1 / sum

  void weigh(const NewRows& rows, int64_t count, float* factors) const {
    int64_t r = 0;
    for (; r + 4 <= count; r += 4) weigh_some<4>(rows.from(r), factors + r);
    for (; r < count; ++r) weigh_some<1>(rows.from(r), factors + r);
  }
  void gradient(const OldRows& rows, int64_t count, float* grads) {
    int64_t r = 0;
    for (; r + 4 <= count; r += 4) grade_some<4>(rows.from(r), grads + r * rows.stride);
    for (; r < count; ++r) grade_some<1>(rows.from(r), grads + r * rows.stride);
  }

 private:
  template <int kRows>
  static void weigh_some(const NewRows& rows, float* factors) {
    F most[kRows], total[kRows];
    for (int r = 0; r < kRows; ++r) most[r] = set(kLowest), total[r] = set(0);
    for (int64_t j = 0; j < rows.n; j += kLanes) {
      for (int r = 0; r < kRows; ++r) most[r] = max(load(rows.row(r) + j), most[r]);
    }
    float top[kRows];
    for (int r = 0; r < kRows; ++r) {
      top[r] = greatest(most[r]);
      most[r] = set(top[r]);
    }
    for (int64_t j = 0; j < rows.n; j += kLanes) {
      for (int r = 0; r < kRows; ++r) {
        const F e = exp_below_one(load(rows.row(r) + j) - most[r]);
        total[r] = total[r] + e;
        store(rows.row(r) + j, e);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      const float all = sum(total[r]);
      factors[r] = all == 0 ? 0.0F : 1.0F / all;
      if (float* stats = rows.stats_of(r)) {
        stats[0] = top[r];
        stats[1] = factors[r];
      }
    }
  }

  template <int kRows>
  static void grade_some(const OldRows& rows, float* grads) {
    F top[kRows], factor[kRows], dot[kRows];
    for (int r = 0; r < kRows; ++r) {
      top[r] = set(rows.stats_of(r)[0]);
      factor[r] = set(rows.stats_of(r)[1]);
      dot[r] = set(0);
    }
    for (int64_t j = 0; j < rows.n; j += kLanes) {
      for (int r = 0; r < kRows; ++r) {
        const F p = exp_below_one(load(rows.row(r) + j) - top[r]) * factor[r];
        dot[r] = fma(p, load(grads + r * rows.stride + j), dot[r]);
        store(rows.row(r) + j, p);
      }
    }
    for (int r = 0; r < kRows; ++r) dot[r] = set(sum(dot[r]));
    for (int64_t j = 0; j < rows.n; j += kLanes) {
      for (int r = 0; r < kRows; ++r) {
        float* g = grads + r * rows.stride + j;
        store(g, load(rows.row(r) + j) * (load(g) - dot[r]));
      }
    }
  }
};

// Weights that do not depend on the row's other scores: value and slope of a function at finite scores.
template <class Function>
struct PointwiseRow {
  static constexpr int kStats = 0;
  Function function;

  void weigh(const NewRows& rows, int64_t count, float* factors) const {
    for (int64_t r = 0; r < count; ++r) {
      float* s = rows.row(r);
      for (int64_t j = 0; j < rows.n; j += kLanes) {
        const F x = load(s + j);
        store(s + j, select(less_equal(x, set(-kInfinity)), set(0), function.value(x)));
      }
      factors[r] = 1.0F;
    }
  }
  void gradient(const OldRows& rows, int64_t count, float* grads) {
    for (int64_t r = 0; r < count; ++r) {
      float *s = rows.row(r), *g = grads + r * rows.stride;
      for (int64_t j = 0; j < rows.n; j += kLanes) {
        const F x = load(s + j);
        const M masked = less_equal(x, set(-kInfinity));
        store(s + j, select(masked, set(0), function.value(x)));
        store(g + j, select(masked, set(0), function.slope(x) * load(g + j)));
      }
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

  void weigh(const NewRows& rows, int64_t count, float* factors) const {
    for (int64_t r = 0; r < count; ++r) {
      weigh_one(rows.row(r), rows.n, rows.stats_of(r));
      factors[r] = 1.0F;
    }
  }
  void gradient(const OldRows& rows, int64_t count, float* grads) {
    for (int64_t r = 0; r < count; ++r) grade_one(rows.row(r), grads + r * rows.stride, rows.n, rows.stats_of(r));
  }

 private:
  void weigh_one(float* s, int64_t n, float* stats) const {
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
  }

  // ds = U (dp - sum(U dp) / sum(U)), U = p^(2-alpha) = y^(c-1) on the support (Peters et al. 2019, Prop. 2).
  void grade_one(float* s, float* g, int64_t n, const float* stats) {
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
