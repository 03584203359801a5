#include "fovea/text/utf8.h"

#include <algorithm>
#include <cstdint>

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

bool stands_alone(std::string_view character) {
  if (character.size() < 3) return false;
  uint32_t code = static_cast<unsigned char>(character[0]) & (character.size() == 3 ? 0x0fU : 0x07U);
  for (size_t i = 1; i < character.size(); ++i) code = code << 6U | (static_cast<unsigned char>(character[i]) & 0x3fU);
  return (code >= 0x3040 && code <= 0x30ff) || (code >= 0x3400 && code <= 0x9fff) ||
         (code >= 0xf900 && code <= 0xfaff) || code >= 0x20000;
}

}  // namespace fovea::text
