#pragma once
#include <cmath>
#include <compare>
#include <cstdint>
#include <vector>

namespace fovea {

// The turn of a head's pairs by rotary positions: pair i turns by position * frequencies[i], and cosines and sines are
// multiplied by `scale`.
struct RotaryAngles {
  std::vector<double> frequencies;  // of the D / 2 pairs
  double scale = 1;
  auto operator<=>(const RotaryAngles&) const = default;
};

// The angles of Su 2021 for heads of `head_dim` numbers: base^(-2 i / D).
inline RotaryAngles rotary_angles(int64_t head_dim, double base) {
  RotaryAngles angles;
  for (int64_t i = 0; i < head_dim / 2; ++i)
    angles.frequencies.push_back(std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
  return angles;
}

}  // namespace fovea
