#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

// UTF-8 byte by byte, without ICU. base/strings.h has first_character().
namespace fovea::text {

// The number of bytes at the end of `text` that begin a character whose other bytes are missing: 0 to 3.
size_t cut_character(std::string_view text);

// The first place at which bytes are not text, and why: "is not UTF-8 ...", "has a NUL byte ...".
struct BadByte {
  size_t at;
  std::string_view why;
};
std::optional<BadByte> find_bad_byte(std::string_view text);

// White space as Python's str.split() sees it: Unicode's, and the separators of files, groups, records and units.
inline constexpr std::array<std::string_view, 29> kWhiteSpaces = {
    "\t",     "\n",     "\v",     "\f",     "\r",     "\x1c",   "\x1d",   "\x1e",   "\x1f",   " ",
    "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
    "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};

// The bytes of the white space character that `text` begins with; 0 if it begins with none.
size_t white_space_size(std::string_view text);

// Whether the UTF-8 character is kana or a Chinese character, which are written without blanks between words: each is a
// word of its own.
bool stands_alone(std::string_view character);

}  // namespace fovea::text
