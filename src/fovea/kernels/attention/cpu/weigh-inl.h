#pragma once
#include "fovea/kernels/attention/cpu/entmax-inl.h"

// Score rows to weights and back, one struct per transform. Rows are whole vectors; -inf where there is no candidate.
//   kStats                      floats that forward leaves for backward, a row
//   weigh(rows, factors)        scores become the weights divided by the row's factor
//   gradient(rows, grads)       scores become weights; grads, of the weights, become those of the scores
// A row without a candidate gets zeros throughout; NaN among the candidates makes NaN.
namespace fovea::kernels {
namespace {

// A weight of softmax, or zero where it or its products would leave float's normal range: beside a sum of 1 it is
// nothing, and such numbers are slow.
inline F zero_if_tiny(F p) { return select(less(p, set(0x1p-110F)), set(0), p); }

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

// Softmax, with a sink or without. Rows four at a time: their chains of sums and exponentials run side by side.
template <bool kHasSink>
struct SoftmaxRows {
  static constexpr int kStats = 2;  // maximum, 1 / sum; both count the sink
  float sink = 0;
  double grad_alpha = 0;  // of the sink, over the rows seen

  void weigh(const NewRows& rows, int64_t count, float* factors) const {
    int64_t r = 0;
    for (; r + 4 <= count; r += 4) weigh_some<4>(rows.from(r), factors + r);
    for (; r < count; ++r) weigh_some<1>(rows.from(r), factors + r);
  }
  void gradient(const OldRows& rows, int64_t count, float* grads) {
    int64_t r = 0;
    for (; r + 4 <= count; r += 4) backward_some<4>(rows.from(r), grads + r * rows.stride);
    for (; r < count; ++r) backward_some<1>(rows.from(r), grads + r * rows.stride);
  }

 private:
  template <int kRows>
  void weigh_some(const NewRows& rows, float* factors) const {
    F most[kRows], total[kRows];
    for (int r = 0; r < kRows; ++r) most[r] = set(kHasSink ? sink : kLowest), total[r] = set(0);
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
        const F e = zero_if_tiny(exp_below_one(load(rows.row(r) + j) - most[r]));
        total[r] = total[r] + e;
        store(rows.row(r) + j, e);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      const float all = sum(total[r]) + (kHasSink ? above_sink(top[r]) : 0);
      factors[r] = all == 0 ? 0.0F : 1.0F / all;
      if (float* stats = rows.stats_of(r)) {
        stats[0] = top[r];
        stats[1] = factors[r];
      }
    }
  }

  // exp(sink - top)
  float above_sink(float top) const { return greatest(exp_below_one(set(sink) - set(top))); }

  template <int kRows>
  void backward_some(const OldRows& rows, float* grads) {
    F top[kRows], factor[kRows], dot[kRows];
    for (int r = 0; r < kRows; ++r) {
      top[r] = set(rows.stats_of(r)[0]);
      factor[r] = set(rows.stats_of(r)[1]);
      dot[r] = set(0);
    }
    for (int64_t j = 0; j < rows.n; j += kLanes) {
      for (int r = 0; r < kRows; ++r) {
        const F p = zero_if_tiny(exp_below_one(load(rows.row(r) + j) - top[r]) * factor[r]);
        dot[r] = fma(p, load(grads + r * rows.stride + j), dot[r]);
        store(rows.row(r) + j, p);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      const float all = sum(dot[r]);
      dot[r] = set(all);
      if (kHasSink) grad_alpha -= double{above_sink(rows.stats_of(r)[0]) * rows.stats_of(r)[1]} * all;
    }
    for (int64_t j = 0; j < rows.n; j += kLanes) {
      for (int r = 0; r < kRows; ++r) {
        float* g = grads + r * rows.stride + j;
        store(g, load(rows.row(r) + j) * (load(g) - dot[r]));
      }
    }
  }
};

using SoftmaxRow = SoftmaxRows<false>;

// A row of scores to weights that do not depend on each other: value of a function, none for a masked score.
template <class Function>
inline F weight_of_score(const Function& function, F x) {
  return select(less_equal(x, set(-kInfinity)), set(0), function.value(x));
}
template <class Function>
void weigh_pointwise(const Function& function, float* s, int64_t n) {
  for (int64_t j = 0; j < n; j += kLanes) store(s + j, weight_of_score(function, load(s + j)));
}

// The way back: scores become weights, and gradients of weights become gradients of scores. A pair without a weight
// passes no gradient, whether that gradient is a number or not.
template <class Function>
inline void backward_pointwise(const Function& function, F& s, F& g) {
  const F x = s;
  const M nothing = less_equal(x, set(Function::kNothingBelowZero ? 0 : -kInfinity));
  s = select(nothing, set(0), function.value(x));
  g = select(nothing, set(0), function.slope(x) * g);
}
template <class Function>
void backward_pointwise(const Function& function, float* s, float* grads, int64_t n) {
  for (int64_t j = 0; j < n; j += kLanes) {
    F x = load(s + j), g = load(grads + j);
    backward_pointwise(function, x, g);
    store(s + j, x);
    store(grads + j, g);
  }
}

// Value and slope of a function at finite scores.
template <class Function>
struct PointwiseRow {
  static constexpr int kStats = 0;
  Function function;

  void weigh(const NewRows& rows, int64_t count, float* factors) const {
    for (int64_t r = 0; r < count; ++r) {
      weigh_pointwise(function, rows.row(r), rows.n);
      factors[r] = 1.0F;
    }
  }
  void gradient(const OldRows& rows, int64_t count, float* grads) {
    for (int64_t r = 0; r < count; ++r) backward_pointwise(function, rows.row(r), grads + r * rows.stride, rows.n);
  }
};

struct ReluFunction {
  static constexpr bool kNothingBelowZero = true;
  F value(F x) const { return max(set(0), x); }  // NaN stays: the second argument
  F slope(F x) const { return select(less(set(0), x), set(1.0F), select(is_nan(x), x, set(0))); }
};
struct GeluFunction {
  static constexpr bool kNothingBelowZero = false;
  F value(F x) const { return x * normal(x).cdf; }
  F slope(F x) const {
    const Normal at = normal(x);
    return fma(x * set(0.398942280F), at.bell, at.cdf);
  }
};
struct LeakyReluFunction {
  static constexpr bool kNothingBelowZero = false;
  float negative = 0;
  F value(F x) const { return select(less(x, set(0)), x * set(negative), x); }
  F slope(F x) const { return select(less(set(0), x), set(1.0F), select(is_nan(x), x, set(negative))); }
};

struct SigmoidFunction {
  static constexpr bool kNothingBelowZero = false;
  float bias = 0;
  F value(F x) const {
    const F below = set(0) - (x + set(bias));  // at most 88, where the exponential ends; NaN stays: the second argument
    return zero_if_tiny(set(1.0F) / (set(1.0F) + exp_below_one(min(set(88.0F), below))));
  }
  F slope(F x) const {
    const F p = value(x);
    return p * (set(1.0F) - p);
  }
};

// Calls work(function) if the transform is pointwise; returns whether it is.
template <class Work>
bool with_pointwise(const Transform& transform, Work&& work) {
  static_assert(kAreAllTransforms<Softmax, Sparsemax, Entmax, Relu, Gelu, LeakyRelu, Sigmoid, Sink>);
  if (std::holds_alternative<Relu>(transform)) {
    work(ReluFunction{});
  } else if (std::holds_alternative<Gelu>(transform)) {
    work(GeluFunction{});
  } else if (const auto* leaky = std::get_if<LeakyRelu>(&transform)) {
    work(LeakyReluFunction{static_cast<float>(leaky->negative)});
  } else if (const auto* sigmoid = std::get_if<Sigmoid>(&transform)) {
    work(SigmoidFunction{static_cast<float>(sigmoid->bias)});
  } else {
    return false;
  }
  return true;
}

struct EntmaxRow {
  static constexpr int kStats = 2;  // the greatest score, the root (entmax_solve.h)
  EntmaxPower power{1.5};
  bool wants_alpha = false;
  double grad_alpha = 0;  // sum over the rows seen

  void weigh(const NewRows& rows, int64_t count, float* factors) const {
    with_curve(power, [&](auto curve) {
      for (int64_t r = 0; r < count; ++r) {
        weigh_one<decltype(curve)::value>(rows.row(r), rows.n, rows.stats_of(r));
        factors[r] = 1.0F;
      }
    });
  }
  void gradient(const OldRows& rows, int64_t count, float* grads) {
    with_curve(power, [&](auto curve) {
      for (int64_t r = 0; r < count; ++r) {
        backward_one<decltype(curve)::value>(rows.row(r), grads + r * rows.stride, rows.n, rows.stats_of(r));
      }
    });
  }

 private:
  template <EntmaxCurve kCurve>
  void weigh_one(float* s, int64_t n, float* stats) const {
    const EntmaxScores row = {.values = s, .count = n, .top = row_max(s, n)};
    const float root = entmax_root<kCurve>(power, row);
    const EntmaxRowCurve<kCurve> curve(power, root, entmax_blend<kCurve>(power, row, root));
    for (int64_t j = 0; j < n; j += kLanes) store(s + j, curve.at(load(s + j) - set(row.top)).weight);
    if (stats != nullptr) {
      stats[0] = row.top;
      stats[1] = root;
    }
  }

  // ds = U (dp - sum(U dp) / sum(U)), U = p^(2-alpha) = y^(c-1) on the support (Peters et al. 2019, Prop. 2).
  template <EntmaxCurve kCurve>
  void backward_one(float* s, float* g, int64_t n, const float* stats) {
    const float blend = entmax_blend<kCurve>(power, {.values = s, .count = n, .top = stats[0]}, stats[1]);
    const EntmaxRowCurve<kCurve> row(power, stats[1], blend);
    const auto below = [&](int64_t j) { return load(s + j) - set(stats[0]); };
    F dot = set(0), total = set(0);
    for (int64_t j = 0; j < n; j += kLanes) {
      const F u = row.at(below(j)).slope;
      dot = fma(u, load(g + j), dot);
      total = total + u;
    }
    const float all = sum(total);
    const float delta = all == 0 ? 0.0F : sum(dot) / all;
    EntmaxAlpha of_alpha(power);
    for (int64_t j = 0; j < n; j += kLanes) {
      const EntmaxPoint at = row.at(below(j));
      const F grads = load(g + j) - set(delta);
      if (wants_alpha) of_alpha.add(row.minus_log_y(below(j), at), at, grads);
      store(g + j, at.slope * grads);
      store(s + j, at.weight);
    }
    if (wants_alpha) grad_alpha += of_alpha.gradient();
  }
};

}  // namespace
}  // namespace fovea::kernels
