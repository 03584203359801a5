#pragma once
#include <cstdint>

#include "fovea/kernels/attention/cpu/isa.h"

// alpha-entmax of a row of scores s (Peters, Niculae, Martins 2019), alpha > 1, with c = 1 / (alpha - 1):
//     weight = [z - tau]_+^c,  z = (s - center) / c,  center the greatest score,  tau in [-1, 0) so that they sum to 1.
namespace fovea::kernels {

// c of alpha, exact for 2 and 1.5.
struct EntmaxPower {
  float c = 1;      // 1 / (alpha - 1)
  float slope = 1;  // alpha - 1
  explicit EntmaxPower(double alpha) : c(static_cast<float>(1 / (alpha - 1))), slope(static_cast<float>(alpha - 1)) {}
};

// Lists have room for 16 more.
template <class Tag>
struct EntmaxSolve {
  // A lower bound of tau for the scores values[i] * unit, tight to float rounding when `rounds` is large. More scores
  // only raise tau.
  static float tau(EntmaxPower power, float* values, int64_t count, float unit, int rounds);
  // values: scores in, weights out. tau may be NaN, and then they are.
  static void weights(EntmaxPower power, float* values, int64_t count, float center, float tau);
  // out = weights^(2 - alpha) on the support, 0 elsewhere: derivative of the weights in z, up to a factor.
  static void derivatives(EntmaxPower power, const float* weights, int64_t count, float* out);
};

}  // namespace fovea::kernels
