#pragma once
#include "fovea/kernels/attention/cpu/select-inl.h"
#include "fovea/kernels/attention/cpu/weigh-inl.h"
#include "fovea/spec/selections.h"

// The thresholds of selections (spec/selections.h) for rows of scores.
namespace fovea::kernels {
namespace {

// A row of scores and of their softmax weights, not normalised; whole vectors.
struct WeighedRow {
  const float *scores, *weights;
  int64_t n;

  // The weight of the entries >= from.
  float weight_from(float from) const {
    const F bound = set(from);
    F sums = set(0);
    for (int64_t j = 0; j < n; j += kLanes) {
      sums = sums + select(less_equal(bound, load(scores + j)), load(weights + j), set(0));
    }
    return sum(sums);
  }
  // The score at which the weight of the entries >= it, from the greatest on, reaches `need`. Those >= high weigh
  // `above`, which is less, and those >= low enough; the few between are looked at one by one.
  float reached_between(float low, float high, float above, float need) const {
    int64_t between[kMostBetween], count = 0;  // in the order of falling scores
    for (int64_t j = 0; j < n; ++j) {
      if (scores[j] < low || !(scores[j] < high)) continue;
      int64_t at = count++;
      for (; at > 0 && scores[between[at - 1]] < scores[j]; --at) between[at] = between[at - 1];
      between[at] = j;
    }
    for (int64_t i = 0; i < count; ++i) {
      above += weights[between[i]];
      if (above >= need) return scores[between[i]];
    }
    return low;
  }
  static constexpr int64_t kMostBetween = 32;
};

// The threshold of TopP for a row of whole vectors (-inf: no candidate), or -inf if an entry is NaN. The interval that
// holds it is halved, between values and then, for wide ranges and ties, between their codes, until few entries lie in
// it. `room`: n numbers, for the weights.
inline float top_p_threshold(float p, const float* s, int64_t n, float* room) {
  F top = set(-kInfinity), bottom = set(kInfinity);
  uint32_t nans = 0;
  for (int64_t j = 0; j < n; j += kLanes) {
    const F x = load(s + j);
    top = max(x, top);
    bottom = select(less(set(-kInfinity), x), min(x, bottom), bottom);
    nans |= bits(is_nan(x));
  }
  float low = -greatest(set(0) - bottom), high = greatest(top);
  if (nans != 0 || !(high > -kInfinity)) return -kInfinity;
  if (high == kInfinity) return high;
  F totals = set(0);
  for (int64_t j = 0; j < n; j += kLanes) {
    const F weight = zero_if_tiny(exp_below_one(load(s + j) - set(high)));
    totals = totals + weight;
    store(room + j, weight);
  }
  const WeighedRow row = {s, room, n};
  const float need = p * sum(totals);
  float above = row.weight_from(high);
  if (above >= need) return high;
  const auto halve = [&](float middle, auto& lower, auto& upper, auto place) {
    const float weight = row.weight_from(middle);
    if (weight >= need) {
      low = middle, lower = place;
    } else {
      high = middle, above = weight, upper = place;
    }
    return count_from(s, n, low) - count_from(s, n, high) <= WeighedRow::kMostBetween;
  };
  bool is_few = n <= WeighedRow::kMostBetween;
  for (int step = 0; !is_few && step < 24; ++step) {
    const float middle = 0.5F * low + 0.5F * high;
    if (!(middle > low) || !(middle < high)) break;
    float none = 0;
    is_few = halve(middle, none, none, middle);
  }
  uint32_t low_code = ordered(low), high_code = ordered(high);
  while (!is_few && high_code - low_code > 1) {
    const uint32_t middle = low_code + (high_code - low_code) / 2;
    is_few = halve(from_ordered(middle), low_code, high_code, middle);
  }
  return is_few ? row.reached_between(low, high, above, need) : low;
}

// The threshold of a row of whole vectors (-inf: no candidate). `room`: n numbers.
inline float threshold_of(const Selection& selection, const float* s, int64_t n, float* room) {
  static_assert(kAreAllSelections<All, TopK, TopP>);
  if (const auto* top = std::get_if<TopK>(&selection)) return kth_greatest(s, n, top->k);
  if (const auto* top = std::get_if<TopP>(&selection)) return top_p_threshold(static_cast<float>(top->p), s, n, room);
  return -kInfinity;
}

}  // namespace
}  // namespace fovea::kernels
