#include <cmath>

#include "fovea/analysis/plot.h"

namespace fovea::analysis {

std::vector<double> linear_ticks(double low, double high, int wanted) {
  const double rough = (high - low) / wanted, power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = factor * power;
    if (step >= rough * 0.8) break;
  }
  std::vector<double> ticks;
  // Whole multiples avoid 0.1 + 0.1 + 0.1 = 0.30000000000000004. An end that rounding puts outside counts.
  const double slack = 1e-9, first = std::ceil(low / step - slack), last = high / step + slack;
  for (int i = 0; i <= 2 * wanted && first + i <= last; ++i) ticks.push_back((first + i) * step);
  return ticks;
}

std::vector<double> log_ticks(double low, double high) {
  const int first = static_cast<int>(std::floor(std::log10(low))), last = static_cast<int>(std::ceil(std::log10(high)));
  std::vector<double> ticks;
  for (const std::vector<double>& factors : {std::vector<double>{1}, {1, 2, 5}}) {
    ticks.clear();
    const int stride = factors.size() > 1 ? 1 : 1 + (last - first) / 8;
    for (int power = first; power <= last; power += stride) {
      for (const double factor : factors) {
        const double tick = factor * std::pow(10.0, power);
        if (tick >= low && tick <= high) ticks.push_back(tick);
      }
    }
    if (ticks.size() >= 3) break;
  }
  return ticks;
}

}  // namespace fovea::analysis
