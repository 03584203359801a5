#include "fovea/analysis/svg.h"

#include "fovea/base/strings.h"

namespace fovea::analysis {

std::string escaped_xml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return is_valid_utf8(out) ? out : std::string("(not UTF-8)");
}

std::string svg_length(double value) {
  const std::string text = fixed(value, 1);
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

std::string svg_text(const SvgPoint& at, const std::string& attributes, const std::string& text) {
  return cat("<text x=\"", svg_length(at.x), "\" y=\"", svg_length(at.y), "\"", attributes.empty() ? "" : " ",
             attributes, ">", escaped_xml(text), "</text>\n");
}

}  // namespace fovea::analysis
