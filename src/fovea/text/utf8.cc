#include "fovea/text/utf8.h"

#include <algorithm>
#include <cstdint>

namespace fovea::text {
namespace {

unsigned byte_at(std::string_view text, size_t at) { return static_cast<unsigned char>(text[at]); }

// By the table of well-formed byte sequences of the Unicode standard (3-7).
struct ByteRange {
  unsigned least, most;
};
ByteRange second_byte(unsigned lead) {
  return {lead == 0xe0 ? 0xa0U : lead == 0xf0 ? 0x90U : 0x80U, lead == 0xed ? 0x9fU : lead == 0xf4 ? 0x8fU : 0xbfU};
}
size_t size_by_lead(unsigned lead) {
  return lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
}

}  // namespace

CharacterStart first_character(std::string_view text) {
  using Kind = CharacterStart::Kind;
  const unsigned lead = byte_at(text, 0);
  const size_t size = size_by_lead(lead);
  if (size == 0) return {Kind::kInvalid, 1};
  for (size_t i = 1; i < size; ++i) {
    if (i == text.size()) return {Kind::kCut, i};
    const ByteRange range = i == 1 ? second_byte(lead) : ByteRange{0x80, 0xbf};
    if (byte_at(text, i) < range.least || byte_at(text, i) > range.most) return {Kind::kInvalid, 1};
  }
  return {Kind::kWhole, size};
}

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
  const unsigned lead = text.empty() ? 'x' : byte_at(text, 0);
  if (lead < 0x80) return lead == ' ' || (lead >= '\t' && lead <= '\r') || (lead >= 0x1c && lead <= 0x1f) ? 1 : 0;
  if (lead != 0xc2 && lead != 0xe1 && lead != 0xe2 && lead != 0xe3) return 0;
  for (const std::string_view space : kWhiteSpaces)
    if (text.starts_with(space)) return space.size();
  return 0;
}

}  // namespace fovea::text
