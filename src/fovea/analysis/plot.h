#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Charts of curves as SVG.
namespace fovea::analysis {

struct PlotCurve {
  size_t name = 0;                                // its place in Plot::names, which chooses its colour
  std::vector<std::pair<double, double>> points;  // (x, y), x rising; a value of 1e30 or more, or NaN, leaves a gap
  std::optional<size_t> marked = {};              // the place of a point that gets a ring
  bool is_level = false;                          // one value, drawn from side to side without dots
};

struct PlotPanel {
  std::string title;
  std::vector<PlotCurve> curves;
};

enum class PlotAxis : uint8_t { kNumber, kSeconds };  // seconds are shown as seconds, minutes or hours

struct Plot {
  std::vector<std::string> names;  // of the legend
  std::vector<PlotPanel> panels;   // one at least, in rows of two
  std::string x_title;             // without a unit, which kSeconds adds
  PlotAxis x_axis = PlotAxis::kNumber;
};

// The picture, a whole SVG file. A panel's y axis is logarithmic if its values are positive and the largest is at least
// 20 times the smallest. Curves of very many points are drawn by the extremes of each pixel column.
std::string svg(const Plot& plot);

// Marks of an axis from `low` to `high`, low < high: multiples of 1, 2 or 5 times a power of ten, about `wanted` of
// them. A logarithmic one has powers of ten, and 2 and 5 times those if it would have fewer than three.
std::vector<double> linear_ticks(double low, double high, int wanted);
std::vector<double> log_ticks(double low, double high);

}  // namespace fovea::analysis
