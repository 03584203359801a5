#include "fovea/analysis/picture_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

#include "fovea/analysis/svg.h"
#include "fovea/base/strings.h"
#include "fovea/text/unicode.h"

namespace fovea::analysis {
namespace {

// Pixels.
constexpr double kMapCell = 22, kSmallMapCell = 12, kMapMargin = 16, kMapHead = 52, kMapLegend = 40, kMapLetter = 7.6,
                 kMapGap = 6;
constexpr size_t kManyTokens = 60;  // from here on, cells are small
constexpr const char* kZeroColour = "#f6e4cb";

struct Colour {
  double red, green, blue;
};
using Ramp = std::array<Colour, 4>;
constexpr Ramp kPositive = {{{222, 235, 247}, {107, 174, 214}, {33, 113, 181}, {8, 48, 107}}},
               kNegative = {{{253, 219, 209}, {246, 170, 153}, {239, 119, 98}, {178, 24, 43}}};

std::string hex_colour(const Colour& colour) {
  std::array<char, 8> text{};
  (void)std::snprintf(text.data(), text.size(), "#%02x%02x%02x", static_cast<unsigned>(std::lround(colour.red)),
                      static_cast<unsigned>(std::lround(colour.green)),
                      static_cast<unsigned>(std::lround(colour.blue)));
  return text.data();
}

// The colour at `place` in [0, 1] of a ramp.
std::string colour_at(const Ramp& ramp, double place) {
  const double at = std::clamp(place, 0.0, 1.0) * (ramp.size() - 1);
  const size_t i = std::min(static_cast<size_t>(at), ramp.size() - 2);
  const double part = at - static_cast<double>(i);
  const Colour &from = ramp.at(i), &to = ramp.at(i + 1);
  return hex_colour({from.red + (to.red - from.red) * part, from.green + (to.green - from.green) * part,
                     from.blue + (to.blue - from.blue) * part});
}

// The square root shows small weights.
std::string weight_colour(float weight, float greatest) {
  if (std::isnan(weight)) return "#f0f1f3";
  if (weight == 0) return kZeroColour;
  return colour_at(weight > 0 ? kPositive : kNegative, std::sqrt(std::abs(weight) / greatest));
}

// The label as people read it: without the mark of SentencePiece at the beginning of a word.
std::string map_label(const std::string& piece) {
  constexpr std::string_view kWordBegin = "\u2581";
  return piece.starts_with(kWordBegin) && piece.size() > kWordBegin.size() ? piece.substr(kWordBegin.size()) : piece;
}

struct MapSize {
  double cell = 0, left = 0, top = 0;
  size_t columns = 0, rows = 0;
  double map_width() const { return cell * static_cast<double>(columns); }
  double map_height() const { return cell * static_cast<double>(rows); }
};

double longest_label(const std::vector<std::string>& labels) {
  int64_t columns = 0;
  for (const std::string& label : labels) columns = std::max(columns, text::terminal_columns(map_label(label)));
  return kMapLetter * static_cast<double>(columns);
}

// Cells of one row and colour as one rectangle.
std::string map_row(const AttentionPicture& picture, const MapSize& size, size_t row, float greatest) {
  std::string out;
  const float* const weights = picture.weights.data() + row * size.columns;
  for (size_t begin = 0, end = 0; begin < size.columns; begin = end) {
    const std::string colour = weight_colour(weights[begin], greatest);
    for (end = begin + 1; end < size.columns && weight_colour(weights[end], greatest) == colour;) ++end;
    out += cat("<rect x=\"", svg_length(size.left + size.cell * static_cast<double>(begin)), "\" y=\"",
               svg_length(size.top + size.cell * static_cast<double>(row)), "\" width=\"",
               svg_length(size.cell * static_cast<double>(end - begin)), "\" height=\"", svg_length(size.cell),
               "\" fill=\"", colour, "\"/>\n");
  }
  return out;
}

std::string map_grid(const MapSize& size) {
  std::string path;
  for (size_t c = 1; c < size.columns; ++c)
    path += cat("M", svg_length(size.left + size.cell * static_cast<double>(c)), " ", svg_length(size.top), "v",
                svg_length(size.map_height()));
  for (size_t r = 1; r < size.rows; ++r)
    path += cat("M", svg_length(size.left), " ", svg_length(size.top + size.cell * static_cast<double>(r)), "h",
                svg_length(size.map_width()));
  return path.empty() ? "" : cat("<path d=\"", path, "\" stroke=\"white\" fill=\"none\"/>\n");
}

std::string map_labels(const AttentionPicture& picture, const MapSize& size) {
  std::string out;
  for (size_t r = 0; r < size.rows; ++r)
    out += svg_text({size.left - kMapGap, size.top + size.cell * (static_cast<double>(r) + 0.5) + 4},
                    "text-anchor=\"end\"", map_label(picture.targets[r]));
  for (size_t c = 0; c < size.columns; ++c) {
    const std::string label = map_label(picture.sources[c]);
    const double x = size.left + size.cell * (static_cast<double>(c) + 0.5);
    // A label of one letter stands upright, for it would look like another letter on its side.
    if (text::terminal_columns(label) <= 1) {
      out += svg_text({x, size.top - kMapGap}, "text-anchor=\"middle\"", label);
    } else {
      out += cat("<text transform=\"translate(", svg_length(x + 4), " ", svg_length(size.top - kMapGap),
                 ") rotate(-90)\">", escaped_xml(label), "</text>\n");
    }
  }
  return out;
}

std::string map_legend(const AttentionPicture& picture, const SvgPoint& at, float greatest) {
  constexpr double kBox = 12, kStep = 3;
  constexpr int kSteps = 40;
  const bool has_zeros = std::ranges::find(picture.weights, 0.0F) != picture.weights.end();
  std::string out;
  double x = at.x;
  if (has_zeros) {
    out += cat("<rect x=\"", svg_length(x), "\" y=\"", svg_length(at.y), "\" width=\"12\" height=\"12\" fill=\"",
               kZeroColour, "\"/>\n");
    out += svg_text({x + kBox + kMapGap, at.y + 10}, "fill=\"#5b6472\"", "exactly 0");
    x += 92;
  }
  for (int i = 0; i < kSteps; ++i)
    out += cat("<rect x=\"", svg_length(x + kStep * i), "\" y=\"", svg_length(at.y),
               "\" width=\"3\" height=\"12\" fill=\"", colour_at(kPositive, std::sqrt((i + 0.5) / kSteps)), "\"/>\n");
  return out + svg_text({x + kStep * kSteps + kMapGap, at.y + 10}, "fill=\"#5b6472\"",
                        cat("above 0, up to ", fixed(greatest, greatest < 0.1F ? 4 : 2)));
}

}  // namespace

std::string picture_svg(const AttentionPicture& picture, const std::string& title, const std::string& caption) {
  MapSize size = {.columns = picture.sources.size(), .rows = picture.targets.size()};
  size.cell = std::max(size.columns, size.rows) >= kManyTokens ? kSmallMapCell : kMapCell;
  size.left = kMapMargin + longest_label(picture.targets) + kMapGap;
  size.top = kMapHead + longest_label(picture.sources) + kMapGap;
  float greatest = 0;
  for (const float weight : picture.weights)
    if (std::isfinite(weight)) greatest = std::max(greatest, std::abs(weight));
  const auto text_width = [](const std::string& text) {
    return 2 * kMapMargin + kMapLetter * static_cast<double>(text::terminal_columns(text));
  };
  const double width =
                   std::max({size.left + size.map_width() + kMapMargin, text_width(title), text_width(caption), 300.0}),
               height = size.top + size.map_height() + kMapLegend;
  std::string out = cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", svg_length(width), "\" height=\"",
                        svg_length(height), "\" viewBox=\"0 0 ", svg_length(width), " ", svg_length(height),
                        "\" font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\" font-size=\"13\" "
                        "fill=\"#1d2129\">\n<title>",
                        escaped_xml(title), "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
  out += svg_text({kMapMargin, 22}, "font-size=\"15\"", title);
  out += svg_text({kMapMargin, 42}, "fill=\"#5b6472\"", caption);
  out += "<g shape-rendering=\"crispEdges\">\n";
  for (size_t row = 0; row < size.rows; ++row) out += map_row(picture, size, row, greatest);
  out += cat(map_grid(size), "</g>\n", map_labels(picture, size));
  return out + map_legend(picture, {size.left, size.top + size.map_height() + 16}, greatest) + "</svg>\n";
}

}  // namespace fovea::analysis
