#include "fovea/base/empty_line.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "fovea/base/strings.h"

namespace fovea {
namespace {

struct CharacterRange {
  uint32_t first, last;
};

// Unicode's control characters (Cc), White_Space, and Default_Ignorable_Code_Point, in order, and a few characters that
// have none of these properties: U+2581, U+2800 (the Braille cell without dots) and U+FFF9 to U+FFFB, which enclose
// annotations. base/ has no Unicode library; the test of text/unicode.h compares the table with one.
constexpr std::array kUnseen = {
    CharacterRange{0x0000, 0x0020},   CharacterRange{0x007f, 0x00a0},   CharacterRange{0x00ad, 0x00ad},
    CharacterRange{0x034f, 0x034f},   CharacterRange{0x061c, 0x061c},   CharacterRange{0x115f, 0x1160},
    CharacterRange{0x1680, 0x1680},   CharacterRange{0x17b4, 0x17b5},   CharacterRange{0x180b, 0x180f},
    CharacterRange{0x2000, 0x200f},   CharacterRange{0x2028, 0x202f},   CharacterRange{0x205f, 0x206f},
    CharacterRange{0x2581, 0x2581},   CharacterRange{0x2800, 0x2800},   CharacterRange{0x3000, 0x3000},
    CharacterRange{0x3164, 0x3164},   CharacterRange{0xfe00, 0xfe0f},   CharacterRange{0xfeff, 0xfeff},
    CharacterRange{0xffa0, 0xffa0},   CharacterRange{0xfff0, 0xfffb},   CharacterRange{0x1bca0, 0x1bca3},
    CharacterRange{0x1d173, 0x1d17a}, CharacterRange{0xe0000, 0xe0fff},
};

// The code point of one character's UTF-8.
uint32_t code_point(std::string_view character) {
  uint32_t code = static_cast<unsigned char>(character[0]);
  if (character.size() > 1) code &= 0x7fU >> character.size();
  for (const char byte : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(byte) & 0x3fU);
  return code;
}

}  // namespace

size_t unseen_size(std::string_view text) {
  if (text.empty()) return 0;
  const CharacterStart start = first_character(text);
  if (start.kind != CharacterStart::Kind::kWhole) return 0;
  const uint32_t code = code_point(text.substr(0, start.size));
  const auto* const range = std::ranges::lower_bound(kUnseen, code, {}, &CharacterRange::last);
  return range != kUnseen.end() && code >= range->first ? start.size : 0;
}

bool is_empty_line(std::string_view line) {
  while (const size_t size = unseen_size(line)) line.remove_prefix(size);
  return line.empty();
}

}  // namespace fovea
