#pragma once
#include <cmath>
#include <string_view>
#include <tuple>

#include "fovea/spec/transforms.h"

namespace fovea {

// A soft cap c of the scores (Bello et al. 2016, arXiv 1611.09940; Gemma 2, arXiv 2408.00118): each scaled product s of
// a query and a key becomes c tanh(s / c), which lies between -c and c. It comes before the terms by offset, the
// selection and the transform.
struct ScoreCap {
  double cap = 50;
  static constexpr std::string_view kName = "softcap",
                                    kHelp =
                                        "c tanh(s / c) in place of each score s, before positions by distance, "
                                        "selection and weights (Bello et al. 2016, Gemma 2)";
  static constexpr auto fields() { return std::tuple(RealField<ScoreCap>{"c", &ScoreCap::cap, 0.01, 1e6}); }

  template <class T>
  T value(T s) const {
    return static_cast<T>(cap) * std::tanh(s / static_cast<T>(cap));
  }
  // The derivative, from value(s).
  template <class T>
  T slope(T capped) const {
    const T share = capped / static_cast<T>(cap);
    return (T{1} - share) * (T{1} + share);
  }
  bool operator==(const ScoreCap&) const = default;
};

}  // namespace fovea
