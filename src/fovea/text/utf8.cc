#include "fovea/text/utf8.h"

#include <algorithm>

#include "fovea/base/strings.h"

namespace fovea::text {

size_t cut_character(std::string_view text) {
  constexpr size_t kMost = 3;
  for (size_t size = std::min(kMost, text.size()); size > 0; --size) {
    const CharacterStart start = first_character(text.substr(text.size() - size));
    if (start.kind == CharacterStart::Kind::kCut) return size;
  }
  return 0;
}

std::optional<BadByte> find_bad_byte(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CharacterStart start = first_character(text.substr(at));
    if (start.kind != CharacterStart::Kind::kWhole)
      return BadByte{at, "is not UTF-8; convert the text, as with iconv -t UTF-8"};
    if (text[at] == '\0') return BadByte{at, "has a NUL byte and is not text; name a text file"};
    at += start.size;
  }
  return std::nullopt;
}

size_t white_space_size(std::string_view text) {
  const unsigned lead = text.empty() ? 'x' : static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return lead == ' ' || (lead >= '\t' && lead <= '\r') || (lead >= 0x1c && lead <= 0x1f) ? 1 : 0;
  if (lead != 0xc2 && lead != 0xe1 && lead != 0xe2 && lead != 0xe3) return 0;
  for (const std::string_view space : kWhiteSpaces)
    if (text.starts_with(space)) return space.size();
  return 0;
}

}  // namespace fovea::text
