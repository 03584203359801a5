#pragma once
#include <string>

// Pieces of SVG files, which Fovea writes as text.
namespace fovea::analysis {

// Returns `text` as it stands in an element or in an attribute in double quotes. Control characters become spaces,
// because XML does not have them. Text that is not UTF-8 becomes "(not UTF-8)".
std::string escaped_xml(const std::string& text);

// Returns a length with one decimal at most: 12.3, 12.
std::string svg_length(double value);

// Returns a <text> element. `attributes` is e.g. text-anchor="end", or empty.
struct SvgPoint {
  double x = 0, y = 0;
};
std::string svg_text(const SvgPoint& at, const std::string& attributes, const std::string& text);

}  // namespace fovea::analysis
