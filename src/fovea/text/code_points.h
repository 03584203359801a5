#pragma once
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

// UTF-8 text, character by character.
namespace fovea::text {

// Calls visit(UChar32) for each character; bytes that are not UTF-8 come as U+FFFD.
template <class Visit>
void each_character(std::string_view text, const Visit& visit) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const size_t size = text.size();
  for (size_t i = 0; i < size;) {
    UChar32 c = 0;
    U8_NEXT_OR_FFFD(bytes, i, size, c);
    visit(c);
  }
}

inline void append_character(std::string& out, UChar32 c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
    return;
  }
  icu::UnicodeString(c).toUTF8String(out);
}

inline bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace fovea::text
