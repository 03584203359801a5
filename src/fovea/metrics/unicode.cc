#include "fovea/metrics/unicode.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

namespace fovea::metrics {

std::u32string decode_utf8(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const size_t size = text.size();
  for (size_t i = 0; i < size;) {
    UChar32 c = 0;
    U8_NEXT_OR_FFFD(bytes, i, size, c);
    out.push_back(static_cast<char32_t>(c));
  }
  return out;
}

std::u32string lower_case(std::u32string_view text) {
  icu::UnicodeString units;
  for (const char32_t c : text) units.append(static_cast<UChar32>(c));
  units.toLower(icu::Locale::getRoot());
  std::u32string out;
  for (int32_t i = 0; i < units.length(); i = units.moveIndex32(i, 1))
    out.push_back(static_cast<char32_t>(units.char32At(i)));
  return out;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

std::u32string_view strip_right(std::u32string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::u32string_view strip(std::u32string_view text) {
  text = strip_right(text);
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

std::vector<std::u32string_view> split_words(std::u32string_view text) {
  std::vector<std::u32string_view> words;
  for (size_t i = 0; i < text.size();) {
    while (i < text.size() && is_space(text[i])) ++i;
    const size_t start = i;
    while (i < text.size() && !is_space(text[i])) ++i;
    if (i > start) words.push_back(text.substr(start, i - start));
  }
  return words;
}

std::u32string without_spaces(std::u32string_view text) {
  std::u32string out(text);
  std::erase_if(out, is_space);
  return out;
}

std::u32string replace_all(std::u32string_view text, std::u32string_view from, std::u32string_view to) {
  std::u32string out;
  for (size_t begin = 0;;) {
    const size_t at = text.find(from, begin);
    out += text.substr(begin, at - begin);
    if (at == std::u32string_view::npos) return out;
    out += to;
    begin = at + from.size();
  }
}

bool is_number(char32_t c) { return (U_MASK(u_charType(static_cast<UChar32>(c))) & U_GC_N_MASK) != 0; }
bool is_punctuation(char32_t c) { return (U_MASK(u_charType(static_cast<UChar32>(c))) & U_GC_P_MASK) != 0; }
bool is_symbol(char32_t c) { return (U_MASK(u_charType(static_cast<UChar32>(c))) & U_GC_S_MASK) != 0; }

}  // namespace fovea::metrics
