#include "fovea/analysis/plot.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "fovea/analysis/plot_axes.h"
#include "fovea/analysis/svg.h"
#include "fovea/base/strings.h"
#include "fovea/text/unicode.h"

namespace fovea::analysis {
namespace {

// Pixels.
constexpr double kPanelWidth = 560, kPanelHeight = 330;                        // with its labels
constexpr double kLeft = 70, kRight = 22, kTop = 36, kBottom = 52;             // around the axes
constexpr double kLegendTop = 14, kLegendRow = 22, kSwatch = 26, kLetter = 7;  // a letter is about so wide
constexpr double kPlotWidth = kPanelWidth - kLeft - kRight, kPlotHeight = kPanelHeight - kTop - kBottom;
constexpr size_t kFewPoints = 40;  // they get dots

// Okabe and Ito's colours, which the colour-blind can tell apart too. Further curves repeat them in dashes.
constexpr std::array<const char*, 7> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#e69f00", "#56b4e9", "#000000"};
constexpr std::array<const char*, 4> kDashes = {"", "7 3", "2 3", "8 3 2 3"};

std::string line(double x1, double y1, double x2, double y2, const char* colour) {
  return cat("<path d=\"M", svg_length(x1), " ", svg_length(y1), "L", svg_length(x2), " ", svg_length(y2),
             "\" stroke=\"", colour, "\"/>\n");
}

using PixelPoint = std::pair<double, double>;

// Keeps the first, the lowest, the highest and the last of the points that share a pixel column.
std::vector<PixelPoint> thinned(const std::vector<PixelPoint>& points) {
  if (points.size() <= static_cast<size_t>(4 * kPlotWidth)) return points;
  std::vector<PixelPoint> kept;
  for (size_t i = 0; i < points.size();) {
    size_t low = i, high = i, end = i;
    for (; end < points.size() && std::floor(points[end].first) == std::floor(points[i].first); ++end) {
      if (points[end].second < points[low].second) low = end;
      if (points[end].second > points[high].second) high = end;
    }
    std::array<size_t, 4> places = {i, std::min(low, high), std::max(low, high), end - 1};
    for (auto place = places.begin(); place != std::unique(places.begin(), places.end()); ++place)
      kept.push_back(points[*place]);
    i = end;
  }
  return kept;
}

std::string stroke_of(size_t name) {
  const char* const dashes = kDashes.at(name / kColours.size() % kDashes.size());
  return cat("stroke=\"", kColours.at(name % kColours.size()), "\" stroke-width=\"1.8\"",
             *dashes == '\0' ? "" : cat(" stroke-dasharray=\"", dashes, "\""));
}

struct Frame {  // of a panel's axes
  double left = 0, top = 0;
  const Axis& x;
  const Axis& y;
  double x_at(double value) const { return left + x.place(value) * kPlotWidth; }
  double y_at(double value) const { return top + (1 - y.place(value)) * kPlotHeight; }
};

std::string polyline(const std::vector<PixelPoint>& points, size_t name, bool has_dots) {
  if (points.empty()) return "";
  std::string path;
  for (const auto& [x, y] : thinned(points)) path += cat(path.empty() ? "M" : "L", svg_length(x), " ", svg_length(y));
  std::string out = cat("<path d=\"", path, "\" fill=\"none\" stroke-linejoin=\"round\" ", stroke_of(name), "/>\n");
  if (!has_dots || points.size() > kFewPoints) return out;
  for (const auto& [x, y] : points)
    out += cat("<circle cx=\"", svg_length(x), "\" cy=\"", svg_length(y), "\" r=\"2.4\" fill=\"",
               kColours.at(name % kColours.size()), "\"/>\n");
  return out;
}

std::string draw_curve(const PlotCurve& curve, const Frame& frame) {
  std::string out;
  std::vector<PixelPoint> piece;
  for (const auto& [x, y] : curve.points) {
    if (is_drawn(x, y)) {
      piece.emplace_back(frame.x_at(x), frame.y_at(y));
    } else {
      out += polyline(piece, curve.name, !curve.is_level);
      piece.clear();
    }
  }
  out += polyline(piece, curve.name, !curve.is_level);
  if (!curve.marked) return out;
  if (const auto& [x, y] = curve.points.at(*curve.marked); is_drawn(x, y)) {
    out += cat("<circle cx=\"", svg_length(frame.x_at(x)), "\" cy=\"", svg_length(frame.y_at(y)),
               "\" r=\"5.5\" fill=\"none\" stroke=\"", kColours.at(curve.name % kColours.size()),
               "\" stroke-width=\"1.6\"/>\n");
  }
  return out;
}

std::string draw_axes(const Frame& frame, const std::string& title, const std::string& x_title) {
  constexpr const char *kGrid = "#e3e3e3", *kAxis = "#444444";
  const double right = frame.left + kPlotWidth, bottom = frame.top + kPlotHeight;
  std::string out = svg_text({frame.left, frame.top - 13}, "font-weight=\"bold\"",
                             cat(title, frame.y.is_log ? " (logarithmic)" : ""));
  for (size_t i = 0; i < frame.y.ticks.size(); ++i) {
    const double y = frame.y_at(frame.y.ticks[i]);
    out += line(frame.left, y, right, y, kGrid);
    out += svg_text({frame.left - 8, y + 4}, "text-anchor=\"end\"", label_of(frame.y, i));
  }
  for (size_t i = 0; i < frame.x.ticks.size(); ++i) {
    const double x = frame.x_at(frame.x.ticks[i]);
    out += line(x, frame.top, x, bottom, kGrid);
    out += svg_text({x, bottom + 18}, "text-anchor=\"middle\"", label_of(frame.x, i));
  }
  out += line(frame.left, bottom, right, bottom, kAxis) + line(frame.left, frame.top, frame.left, bottom, kAxis);
  return out + svg_text({frame.left + kPlotWidth / 2, bottom + 38}, "text-anchor=\"middle\"", x_title);
}

// Names beside their colours, in rows.
struct Legend {
  std::string text;
  double height = 0;
};
Legend draw_legend(const std::vector<std::string>& names, double width) {
  Legend legend;
  double x = kLeft, y = kLegendTop + kLegendRow / 2;
  for (size_t i = 0; i < names.size(); ++i) {
    const double needed =
        kSwatch + 8 + kLetter * static_cast<double>(text::terminal_columns(escaped_xml(names[i]))) + 20;
    if (x > kLeft && x + needed > width) x = kLeft, y += kLegendRow;
    legend.text += cat("<path d=\"M", svg_length(x), " ", svg_length(y), "L", svg_length(x + kSwatch), " ",
                       svg_length(y), "\" ", stroke_of(i), "/>\n");
    legend.text += svg_text({x + kSwatch + 8, y + 4}, "", names[i]);
    x += needed;
  }
  legend.height = y + kLegendRow / 2;
  return legend;
}

}  // namespace

std::string svg(const Plot& given) {
  const Plot plot = without_specks(given);
  const size_t columns = std::min<size_t>(plot.panels.size(), 2), rows = (plot.panels.size() + 1) / 2;
  const double width = kPanelWidth * static_cast<double>(columns);
  const Legend legend = draw_legend(plot.names, width);
  const double height = legend.height + kPanelHeight * static_cast<double>(rows);
  const Axis x = x_axis_of(plot);
  std::string out = cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", svg_length(width), "\" height=\"",
                        svg_length(height), "\" viewBox=\"0 0 ", svg_length(width), " ", svg_length(height),
                        "\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"12\" "
                        "fill=\"#222222\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
                        legend.text);
  for (size_t i = 0; i < plot.panels.size(); ++i) {
    const PlotPanel& panel = plot.panels[i];
    const Axis y = y_axis_of(panel);
    const auto column = static_cast<double>(i % columns), row = static_cast<double>(i / columns);
    const Frame frame = {kLeft + column * kPanelWidth, legend.height + kTop + row * kPanelHeight, x, y};
    out += draw_axes(frame, panel.title, x_title_of(plot, x));
    for (const PlotCurve& curve : panel.curves) out += draw_curve(curve, frame);
  }
  return out + "</svg>\n";
}

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
