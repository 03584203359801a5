#include "fovea/analysis/plot_axes.h"

#include <algorithm>

#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"

namespace fovea::analysis {
namespace {

double without_speck(double value) { return std::abs(value) < 1e-30 ? 0 : value; }

// A mark as text, with as many digits as its neighbours need.
std::string tick_label(double value, double step) {
  const double size = std::abs(value);
  if (size >= 1e7 || (size > 0 && size < 1e-4))
    return shortest(number_in<double>(scientific(value, 3)).value_or(value));
  const int digits = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 6);
  return digits == 0 ? thousands(std::llround(value)) : fixed(value, digits);
}

void widen_if_a_point(Range& range) {
  if (range.is_empty()) range = {0, 1};
  if (range.high > range.low) return;
  const double half = range.low == 0 ? 0.5 : std::abs(range.low) * 0.1;
  range = {range.low - half, range.high + half};
}

}  // namespace

Plot without_specks(Plot plot) {
  for (PlotPanel& panel : plot.panels) {
    for (PlotCurve& curve : panel.curves) {
      for (auto& [x, y] : curve.points) x = without_speck(x), y = without_speck(y);
    }
  }
  return plot;
}

std::string label_of(const Axis& axis, size_t i) {
  const double value = axis.ticks[i] / axis.unit;
  if (axis.is_log) return tick_label(value, std::pow(10.0, std::floor(std::log10(value) + 1e-9)));
  return tick_label(value, axis.ticks.size() > 1 ? (axis.ticks[1] - axis.ticks[0]) / axis.unit : std::abs(value));
}

Axis y_axis_of(const PlotPanel& panel) {
  Axis axis;
  for (const PlotCurve& curve : panel.curves) {
    for (const auto& [x, y] : curve.points) {
      if (is_drawn(x, y)) axis.range.add(y);
    }
  }
  constexpr double kLogRatio = 20, kMargin = 0.05;
  axis.is_log = !axis.range.is_empty() && axis.range.low > 0 && axis.range.high >= kLogRatio * axis.range.low;
  widen_if_a_point(axis.range);
  if (axis.is_log) {
    const double margin = std::pow(axis.range.high / axis.range.low, kMargin);
    axis.range = {axis.range.low / margin, axis.range.high * margin};
    axis.ticks = log_ticks(axis.range.low, axis.range.high);
  } else {
    const double margin = (axis.range.high - axis.range.low) * kMargin;
    axis.range = {axis.range.low - margin, axis.range.high + margin};
    axis.ticks = linear_ticks(axis.range.low, axis.range.high, 6);
  }
  return axis;
}

Axis x_axis_of(const Plot& plot) {
  Axis axis;
  for (const PlotPanel& panel : plot.panels) {
    for (const PlotCurve& curve : panel.curves) {
      for (const auto& [x, y] : curve.points) {
        if (is_drawn(x, y)) axis.range.add(x);
      }
    }
  }
  if (axis.range.low > 0 && axis.range.low < 0.5 * axis.range.high) axis.range.low = 0;
  widen_if_a_point(axis.range);
  constexpr double kMinute = 60, kHour = 3600;
  if (plot.x_axis == PlotAxis::kSeconds)
    axis.unit = axis.range.high >= 3 * kHour ? kHour : axis.range.high >= 3 * kMinute ? kMinute : 1;
  for (const double tick : linear_ticks(axis.range.low / axis.unit, axis.range.high / axis.unit, 6))
    axis.ticks.push_back(tick * axis.unit);
  return axis;
}

std::string x_title_of(const Plot& plot, const Axis& axis) {
  if (plot.x_axis == PlotAxis::kNumber) return plot.x_title;
  return cat(plot.x_title, axis.unit == 1 ? " (seconds)" : axis.unit == 60 ? " (minutes)" : " (hours)");
}

}  // namespace fovea::analysis
