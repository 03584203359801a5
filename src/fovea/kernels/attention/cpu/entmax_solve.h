#pragma once
#include <cmath>
#include <cstdint>

#include "fovea/kernels/simd/isa.h"
#include "fovea/spec/transforms.h"

// alpha-entmax of a row of scores s (Peters, Niculae, Martins 2019), alpha > 1, with c = 1 / (alpha - 1):
//     weight = [1 + (alpha - 1) (s - center - mu)]_+^c,  center the greatest score,  mu in [0, c) so that they sum
//     to 1.
// The paper's tau is (alpha - 1) (center + mu) - 1. mu keeps its digits where that cancels: as alpha goes to 1, weights
// go to exp(s - center - mu), softmax's. Where many scores are near the greatest it is mu that loses them: what matters
// is the greatest's base Y = 1 - (alpha - 1) mu = P^(alpha - 1), P its weight. For 20,000 equal scores that is 5e-5
// with alpha = 2, and with alpha = 8 1e-21 for 1,000. So up to c = 8 the unknown is Y, and above alpha = 2 P itself:
//     weight = [Y + (alpha - 1) (s - center)]_+^c.
// The root of a row is mu for c above 8, Y for c from 1 to 8, and P below. There a key at the edge of the support may
// weigh 0 with one P and much with the next that float has: weights are between those of the two, by `blend` nearer to
// the root's, whose sum is 1 or more.
namespace fovea::kernels {

// c of alpha, exact for 2 and 1.5.
struct EntmaxPower {
  float c = 1;      // 1 / (alpha - 1)
  float slope = 1;  // alpha - 1
  explicit EntmaxPower(double alpha) : c(static_cast<float>(1 / (alpha - 1))), slope(static_cast<float>(alpha - 1)) {}
  bool is_steep() const { return c < 1; }  // alpha > 2
  bool is_flat() const { return c > 8; }   // alpha < 1.125
  float mu_of(float root) const {
    if (is_flat()) return root;
    return c * (1 - (is_steep() ? std::pow(root, slope) : root));
  }
};

// A row whose root is sought: values[i] * unit are its scores, top the greatest value.
struct EntmaxScores {
  float* values = nullptr;  // [count], room for 16 more
  int64_t count = 0;
  float top = 0, unit = 1;  // unit: of the search alone
  float start = 0;          // a lower bound of mu that is known; the nearer, the fewer rounds up to alpha = 2
  float tolerance = 0;      // the step in mu that ends the search, relative to a mu above 1, or to P; 0: rounding
};

// Lists have room for 16 more.
template <Isa kIsa>
struct EntmaxSolve {
  // The root such that mu, near it as the tolerance asks, is a lower bound. More scores only raise center + mu.
  static float root(EntmaxPower power, const EntmaxScores& row);
  // In [0, 1]: with it the weights of that root sum to 1. 1 up to alpha = 2.
  static float blend(EntmaxPower power, const EntmaxScores& row, float root);
  // values: scores in, weights out. The root may be NaN, and then they are.
  static void weights(EntmaxPower power, const EntmaxScores& row, float root, float blend);
  // out = weights^(2 - alpha) on the support, at most kMostEntmaxDerivative, 0 elsewhere: derivative of the weights in
  // z, up to a factor. The weights need no more room.
  static void derivatives(EntmaxPower power, const float* weights, int64_t count, float* out);
};

}  // namespace fovea::kernels
