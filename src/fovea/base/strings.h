#pragma once
#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

// Everything streamable, one after the other: cat("got ", 3, " heads").
template <class... T>
std::string cat(const T&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

std::string fixed(double value, int digits);       // 3.14159, 2 -> "3.14"
std::string scientific(double value, int digits);  // 0.00023, 4 -> "2.3000e-04"
std::string shortest(double value);                // the fewest digits that read back as the same double
std::string thousands(int64_t value);              // 1234567 -> "1,234,567"
std::string join(std::span<const std::string> parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);  // "a,,b" -> {"a", "", "b"}
bool is_space(char c);                                                  // ASCII white space
std::vector<std::string> split_words(std::string_view text);            // on runs of ASCII white space
std::string_view trim(std::string_view text);                           // of ASCII white space
std::string lower(std::string_view text);                               // A to Z alone, whatever the locale

struct CharacterStart {
  enum class Kind { kWhole, kCut, kInvalid };
  Kind kind;
  size_t size;  // bytes: of the whole character; for kCut, of all of the text; for kInvalid, 1
};
// The beginning of `text`, which is not empty: a UTF-8 character, the beginning of one whose end is missing, or a byte
// that no character begins with.
CharacterStart first_character(std::string_view text);
bool is_valid_utf8(std::string_view text);

// U+FEFF in UTF-8, with which some programs begin text files.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// The known name of which `name` is the beginning or a part between dashes, else the nearest by edit distance if near
// enough to be a slip; else empty.
std::string nearest(std::string_view name, std::span<const std::string> known);
// "; did you mean 'x'?" or nothing.
std::string did_you_mean(std::string_view name, std::span<const std::string> known);

}  // namespace fovea
