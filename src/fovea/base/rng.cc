#include "fovea/base/rng.h"

#include <cmath>
#include <numbers>

namespace fovea {

double Rng::normal() {
  const double radius = std::sqrt(-2 * std::log1p(-uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

}  // namespace fovea
