#pragma once
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "fovea/analysis/plot.h"

// The axes of a plot's panels.
namespace fovea::analysis {

// Whether a point is drawn; a larger one would leave nothing to see of the others.
inline bool is_drawn(double x, double y) { return std::abs(x) < 1e30 && std::abs(y) < 1e30; }

// The plot with 0 for values that are nearer to 0 than any mark on an axis can tell; the ratio of a denormal number to
// a usual one overflows.
Plot without_specks(Plot plot);

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double value) { low = std::fmin(low, value), high = std::fmax(high, value); }
  bool is_empty() const { return low > high; }
};

// An axis: values to [0, 1], and the marks on it.
struct Axis {
  Range range;  // that is shown; not empty, and not of length 0
  bool is_log = false;
  double unit = 1;  // marks show value / unit
  std::vector<double> ticks;

  double place(double value) const {
    if (is_log) return std::log(value / range.low) / std::log(range.high / range.low);
    return (value - range.low) / (range.high - range.low);
  }
};

// The axis of a panel's values, logarithmic as plot.h says.
Axis y_axis_of(const PlotPanel& panel);
// The axis begins at 0, or at the first point if all are far from 0. One axis serves all panels, so that they compare.
Axis x_axis_of(const Plot& plot);
std::string x_title_of(const Plot& plot, const Axis& axis);

// Mark `i` of the axis as text, with as many digits as its neighbours need.
std::string label_of(const Axis& axis, size_t i);

}  // namespace fovea::analysis
