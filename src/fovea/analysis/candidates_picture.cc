#include "fovea/analysis/candidates_picture.h"

#include <algorithm>
#include <vector>

#include "fovea/analysis/svg.h"
#include "fovea/base/strings.h"

namespace fovea::analysis {
namespace {

// Pixels.
constexpr double kGridWidth = 336, kMostCell = 24, kPanelLeft = 46, kPanelRight = 24, kPanelTop = 62, kPanelBottom = 14,
                 kLegendHeight = 34, kLetterWidth = 7, kOuterMargin = 8;
constexpr size_t kMostColumns = 3;
constexpr double kLeastLine = 5;  // smaller cells have no lines between them
constexpr const char *kFill = "#0072b2", *kMaybe = "#9ccbe8", *kLine = "#c8c8c8", *kFrame = "#444444";

struct PanelSize {
  int64_t length = 0;
  double cell = 0;
  double grid() const { return cell * static_cast<double>(length); }
  double width() const { return kPanelLeft + std::max(grid(), 180.0) + kPanelRight; }
  double height() const { return kPanelTop + grid() + kPanelBottom; }
};

std::string rectangle(const SvgPoint& at, double width, double height, const std::string& attributes) {
  return cat("<rect x=\"", svg_length(at.x), "\" y=\"", svg_length(at.y), "\" width=\"", shortest(width),
             "\" height=\"", shortest(height), "\" ", attributes, "/>\n");
}

// The rows of candidates as one path in units of cells. Rows below each other with the same candidates are one.
std::string cells_path(const Pairs& pairs, const Row& first) {
  std::string path;
  Row row = first;
  for (int64_t query = 0; query < first.keys;) {
    row.query = query;
    const std::vector<Span> candidates = spans(pairs, row);
    int64_t end = query + 1;
    for (; end < first.keys; ++end) {
      row.query = end;
      if (spans(pairs, row) != candidates) break;
    }
    for (const Span& span : candidates)
      path += cat("M", span.begin, " ", query, "H", span.end, "V", end, "H", span.begin, "Z");
    query = end;
  }
  return path;
}

// Everything above the diagonal, in units of cells.
std::string later_keys_path(int64_t length) {
  std::string path = "M1 0";
  for (int64_t query = 1; query < length; ++query) path += cat("V", query, "H", query + 1);
  return cat(path, "V0Z");
}

std::string grid_lines(const PanelSize& size) {
  if (size.cell < kLeastLine) return "";
  std::string path;
  for (int64_t i = 1; i < size.length; ++i) path += cat("M", i, " 0V", size.length, "M0 ", i, "H", size.length);
  return cat("<path d=\"", path, "\" fill=\"none\" stroke=\"", kLine, "\" stroke-width=\"1\" vector-effect=\"",
             "non-scaling-stroke\"/>\n");
}

// Numbers of positions along both edges, at most eight.
std::string edge_numbers(const SvgPoint& corner, const PanelSize& size) {
  const int64_t step = std::max<int64_t>(1, (size.length + 7) / 8);
  std::string out;
  for (int64_t i = 0; i < size.length; i += step) {
    const double middle = (static_cast<double>(i) + 0.5) * size.cell;
    out += svg_text({corner.x + middle, corner.y - 5}, "text-anchor=\"middle\" fill=\"#666666\" font-size=\"10\"",
                    cat(i + 1));
    out += svg_text({corner.x - 6, corner.y + middle + 3.5}, "text-anchor=\"end\" fill=\"#666666\" font-size=\"10\"",
                    cat(i + 1));
  }
  return out;
}

// The part of the title for which the panel has room; the rest becomes an ellipsis.
std::string shortened(const std::string& title, double width) {
  const auto most = static_cast<size_t>(width / kLetterWidth);
  if (title.size() <= most) return title;  // specs are ASCII
  return title.substr(0, most - 1) + "…";
}

std::string draw_group(const HeadGroup& group, const SvgPoint& at, const PanelSize& size, const Row& row) {
  const SvgPoint corner = {at.x + kPanelLeft, at.y + kPanelTop};
  const std::string title = print(LayerSpec{group});
  std::string out = cat("<g><title>", escaped_xml(title), "</title>\n");
  out += svg_text({at.x + 10, at.y + 18}, "font-weight=\"bold\"", shortened(title, size.width() - 14));
  if (group.spec.route()) {
    out += svg_text({corner.x, corner.y + 16}, "", "The candidates depend on the data: those");
    return out + svg_text({corner.x, corner.y + 32}, "", "of a query share a cluster with it.") + "</g>\n";
  }
  out += svg_text({corner.x + size.grid() / 2, corner.y - 20}, "text-anchor=\"middle\"", "keys");
  out += cat("<text transform=\"translate(", svg_length(at.x + 14), " ", svg_length(corner.y + size.grid() / 2),
             ") rotate(-90)\" text-anchor=\"middle\">queries</text>\n");
  out += edge_numbers(corner, size);
  out += rectangle(corner, size.grid(), size.grid(), "fill=\"white\"");
  out += cat("<g transform=\"translate(", svg_length(corner.x), " ", svg_length(corner.y), ") scale(",
             shortest(size.cell), ")\">\n");
  if (row.causal && size.length > 1)
    out += cat("<path d=\"", later_keys_path(size.length), "\" fill=\"url(#later)\"/>\n");
  const auto cells = [&](const Pairs& pairs, const char* fill) {
    return cat("<path d=\"", cells_path(pairs, row), "\" fill=\"", fill, "\"/>\n");
  };
  if (const BlockChoice* blocks = group.spec.blocks()) {
    if (blocks->best > 1) out += cells({}, kMaybe);
    out += cells(leaf(Block{blocks->block}), kFill);
  } else {
    out += cells(group.spec.pairs(), kFill);
  }
  out += grid_lines(size) + "</g>\n";
  return out + rectangle(corner, size.grid(), size.grid(), cat("fill=\"none\" stroke=\"", kFrame, "\"")) + "</g>\n";
}

struct LegendParts {
  bool later = false;   // keys after their query
  bool chosen = false;  // blocks of which the best are candidates
};

// `cell` undoes the scale of the hatching, which is made for the panels.
std::string draw_cell_legend(const SvgPoint& at, double cell, const LegendParts& parts) {
  constexpr double kBox = 13;
  std::string out;
  double x = at.x;
  const auto entry = [&](const std::string& fill, const std::string& name) {
    out +=
        cat("<g transform=\"translate(", svg_length(x), " ", svg_length(at.y), ") scale(", shortest(cell), ")\">",
            rectangle({0, 0}, kBox / cell, kBox / cell,
                      cat("fill=\"", fill, "\" stroke=\"", kFrame, "\" stroke-width=\"", shortest(0.6 / cell), "\"")),
            "</g>\n", svg_text({x + kBox + 6, at.y + 11}, "", name));
    x += kBox + 6 + kLetterWidth * static_cast<double>(name.size()) + 14;
  };
  entry(kFill, "candidate");
  if (parts.chosen) entry(kMaybe, "the best blocks of these too");
  entry("white", "left out");
  if (parts.later) entry("url(#later)", "later key");
  return out;
}

// Oblique lines, 6 pixels apart, in units of cells.
std::string hatch(double cell) {
  return cat(
      "<defs><pattern id=\"later\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"scale(",
      shortest(1 / cell), ") rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#f4f4f4\"/><path d=\"M0 0V6\" ",
      "stroke=\"#c4c4c4\" stroke-width=\"1.6\"/></pattern></defs>\n");
}

}  // namespace

std::string candidates_svg(const LayerSpec& spec, int64_t length, AttentionKind kind) {
  require_groups_fit(spec);
  for (const HeadGroup& group : spec) validate(group.spec, kind);
  const PanelSize size = {length, std::min(kMostCell, kGridWidth / static_cast<double>(length))};
  const size_t columns = std::min(spec.size(), kMostColumns), rows = (spec.size() + columns - 1) / columns;
  const bool causal = kind == AttentionKind::kCausal;
  const bool chooses = std::ranges::any_of(
      spec, [](const HeadGroup& group) { return group.spec.blocks() != nullptr && group.spec.blocks()->best > 1; });
  const double width = size.width() * static_cast<double>(columns) + kOuterMargin,
               height = size.height() * static_cast<double>(rows) + kLegendHeight;
  std::string out = cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", svg_length(width), "\" height=\"",
                        svg_length(height), "\" viewBox=\"0 0 ", svg_length(width), " ", svg_length(height),
                        "\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"12\" "
                        "fill=\"#222222\">\n<title>",
                        escaped_xml(print(spec)), "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
                        hatch(size.cell));
  for (size_t i = 0; i < spec.size(); ++i) {
    const SvgPoint at = {static_cast<double>(i % columns) * size.width(),
                         static_cast<double>(i / columns) * size.height()};
    out += draw_group(spec[i], at, size, {0, length, causal, i});
  }
  return out + draw_cell_legend({kPanelLeft, height - kLegendHeight + 8}, size.cell, {causal, chooses}) + "</svg>\n";
}

}  // namespace fovea::analysis
