#include "fovea/analysis/plot_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "fovea/analysis/plot_axes.h"
#include "fovea/base/strings.h"

namespace fovea::analysis {
namespace {

constexpr std::array<char, 7> kSigns = {'*', 'o', '+', 'x', '#', '@', '%'};  // further curves repeat them
constexpr int64_t kRows = 14;                                                // of a panel
constexpr int64_t kLeast = 24;                                               // columns of a panel without its labels

char sign_of(size_t name) { return kSigns.at(name % kSigns.size()); }

std::string right_aligned(const std::string& text, size_t width) {
  return std::string(text.size() < width ? width - text.size() : 0, ' ') + text;
}

// The cells of a panel, and where values lie in them.
class Canvas {
 public:
  Canvas(int64_t columns, const Axis& x, const Axis& y)
      : x_(x), y_(y), rows_(kRows, std::string(static_cast<size_t>(columns), ' ')) {}

  int64_t row_of(double value) const { return cell(1 - y_.place(value), kRows); }
  int64_t column_of(double value) const { return cell(x_.place(value), std::ssize(rows_.front())); }
  const std::string& row(int64_t i) const { return rows_[static_cast<size_t>(i)]; }

  void draw(const PlotCurve& curve) {
    std::optional<std::pair<double, double>> before;
    for (const auto& [x, y] : curve.points) {
      if (!is_drawn(x, y)) {
        before.reset();
        continue;
      }
      const auto& [x0, y0] = before.value_or(std::pair(x, y));
      line({column_of(x0), row_of(y0)}, {column_of(x), row_of(y)}, sign_of(curve.name));
      before = {x, y};
    }
  }

 private:
  using Cell = std::pair<int64_t, int64_t>;  // column and row

  static int64_t cell(double share, int64_t count) {
    return std::clamp<int64_t>(std::llround(share * static_cast<double>(count - 1)), 0, count - 1);
  }

  void line(Cell from, Cell to, char sign) {
    const int64_t across = to.first - from.first, down = to.second - from.second;
    const int64_t steps = std::max<int64_t>({std::abs(across), std::abs(down), 1});
    for (int64_t i = 0; i <= steps; ++i) {
      const double share = static_cast<double>(i) / static_cast<double>(steps);
      const int64_t column = from.first + std::llround(share * static_cast<double>(across));
      const int64_t row = from.second + std::llround(share * static_cast<double>(down));
      rows_[static_cast<size_t>(row)][static_cast<size_t>(column)] = sign;
    }
  }

  const Axis &x_, &y_;
  std::vector<std::string> rows_;
};

// Labels that share a row would hide each other: the first is kept.
std::vector<std::string> row_labels(const Canvas& canvas, const Axis& y) {
  std::vector<std::string> labels(kRows);
  for (size_t i = 0; i < y.ticks.size(); ++i) {
    std::string& label = labels[static_cast<size_t>(canvas.row_of(y.ticks[i]))];
    if (label.empty()) label = label_of(y, i);
  }
  return labels;
}

std::string x_labels(const Canvas& canvas, const Axis& x, int64_t columns) {
  std::string labels;
  for (size_t i = 0; i < x.ticks.size(); ++i) {
    const std::string label = label_of(x, i);
    const int64_t begin = std::min(canvas.column_of(x.ticks[i]) - std::ssize(label) / 2, columns - std::ssize(label));
    const int64_t room = begin - std::ssize(labels);
    if (room < (labels.empty() ? 0 : 2)) {
      if (labels.empty()) labels = label;
      continue;
    }
    labels += std::string(static_cast<size_t>(room), ' ') + label;
  }
  return labels;
}

std::string marked_values(const Plot& plot, const PlotPanel& panel, const Axis& x) {
  std::string text;
  for (const PlotCurve& curve : panel.curves) {
    if (!curve.marked) continue;
    const auto& [place, value] = curve.points.at(*curve.marked);
    text +=
        cat("  ", sign_of(curve.name), " best ", shortest(std::strtod(scientific(value, 5).c_str(), nullptr)), " at ",
            plot.x_axis == PlotAxis::kSeconds ? fixed(place / x.unit, 1) : thousands(std::llround(place)), "\n");
  }
  return text;
}

std::string print(const Plot& plot, const PlotPanel& panel, const Axis& x, int64_t width) {
  const Axis y = y_axis_of(panel);
  size_t label_width = 0;
  for (size_t i = 0; i < y.ticks.size(); ++i) label_width = std::max(label_width, label_of(y, i).size());
  const int64_t columns = std::max(kLeast, width - static_cast<int64_t>(label_width) - 3);
  Canvas canvas(columns, x, y);
  for (const PlotCurve& curve : panel.curves) canvas.draw(curve);
  const std::vector<std::string> labels = row_labels(canvas, y);
  std::string out = cat("\n", panel.title, y.is_log ? " (logarithmic)" : "", "\n");
  for (int64_t row = 0; row < kRows; ++row) {
    const std::string& label = labels[static_cast<size_t>(row)];
    const std::string cells = canvas.row(row);
    const size_t end = cells.find_last_not_of(' ') + 1;  // 0 if there is none
    out += cat(right_aligned(label, label_width), label.empty() ? " |" : " +", cells.substr(0, end), "\n");
  }
  const std::string indent(label_width + 2, ' ');
  out += cat(indent.substr(1), "+", std::string(static_cast<size_t>(columns), '-'), "\n");
  out += cat(indent, x_labels(canvas, x, columns), "\n", indent, x_title_of(plot, x), "\n");
  return out + marked_values(plot, panel, x);
}

}  // namespace

std::string text_plot(const Plot& given, int64_t width) {
  const Plot plot = without_specks(given);
  const Axis x = x_axis_of(plot);
  std::string out;
  for (size_t i = 0; i < plot.names.size(); ++i)
    out += cat(i == 0 ? "" : "   ", std::string(1, sign_of(i)), " ", plot.names[i]);
  out += "\n";
  for (const PlotPanel& panel : plot.panels) out += print(plot, panel, x, width);
  return out;
}

}  // namespace fovea::analysis
