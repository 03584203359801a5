#include "fovea/base/error.h"

#include <cstddef>
#include <string_view>

#include "fovea/base/strings.h"

namespace fovea {
namespace {

// The bytes at the start of `text` of a character that a line must not have; 0 if it starts with another one. Terminals
// obey the controls C0 and C1, C1 as single bytes too (U+009B begins a command like ESC [), the separators U+2028 and
// U+2029 end lines, and U+202A to U+202E and U+2066 to U+2069 reorder the text around them.
size_t control_size(std::string_view text) {
  const auto is_between = [&](size_t at, unsigned low, unsigned high) {
    const unsigned byte = at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
    return byte >= low && byte <= high;
  };
  if (is_between(0, 0, 0x1f) || is_between(0, 0x7f, 0x9f)) return 1;
  if (is_between(0, 0xc2, 0xc2) && is_between(1, 0x80, 0x9f)) return 2;
  if (!is_between(0, 0xe2, 0xe2)) return 0;
  const bool ends_or_embeds = is_between(1, 0x80, 0x80) && is_between(2, 0xa8, 0xae),
             isolates = is_between(1, 0x81, 0x81) && is_between(2, 0xa6, 0xa9);
  return ends_or_embeds || isolates ? 3 : 0;
}

}  // namespace

std::string one_line(std::string text) {
  std::string line;
  line.reserve(text.size());
  for (std::string_view rest = text; !rest.empty();) {
    const size_t control = control_size(rest);
    const CharacterStart next = first_character(rest);
    const size_t size = control > 0 ? control : next.kind == CharacterStart::Kind::kWhole ? next.size : 1;
    line += control > 0 ? " " : rest.substr(0, size);
    rest.remove_prefix(size);
  }
  return line;
}

}  // namespace fovea
