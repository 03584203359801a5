#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Unicode operations that the corpus needs, on UTF-8 strings.
namespace fovea::text {

// UTF-8 text with composed characters: Unicode's normal form C.
// More marks on one character than any text has are composed in parts: the work of ordering them grows with the square
// of their number.
std::string nfc(std::string_view text);

// UTF-8 text with decomposed characters, normal form D. Marks are ordered as far as nfc() orders them.
std::string nfd(std::string_view text);

// NFC; white space of any kind, control characters too, becomes one blank; none at the ends; soft hyphens, byte order
// marks and other invisible marks go. The text must be valid UTF-8.
std::string normalise(std::string_view text);

// A line that clean_line() changed, and the places of its text in the line.
struct CleanLine {
  // Bytes of the text that stand for other bytes of the line; all others are copies.
  struct Change {
    size_t begin = 0, end = 0;            // in the text
    size_t line_begin = 0, line_end = 0;  // in the line
  };
  std::string text;
  std::vector<Change> changes;  // in their order
  // The place in the line at which the text's byte `at` begins, or behind which the bytes before it end.
  size_t line_begin(size_t at) const;
  size_t line_end(size_t at) const;
};

// Does to a line what normalise() does to a text, except for characters that `keeps` keeps: they stay, and compose with
// no other if all their parts stay. Kept blanks may stand at the ends and side by side. Bytes that are not UTF-8 stay.
// Returns none if nothing changes.
std::optional<CleanLine> clean_line(std::string_view line, const std::function<bool(int32_t character)>& keeps);

// The bytes of the white space at the beginning of the text, and at its end: Unicode's, and what ASCII has.
size_t leading_blanks_size(std::string_view text);
size_t trailing_blanks_size(std::string_view text);

// The columns of a terminal that the text takes: two a wide character, as of Chinese, none a mark on the one before.
int64_t terminal_columns(std::string_view text);

// Text in lower case, each character by itself, as in transformers: a capital sigma at the end of a word is a sigma
// like any other.
std::string lower_case(std::string_view text);

// For comparing: case folded, letters and digits only, words apart by a blank. The text itself if it has neither.
std::string folded(std::string_view text);

// The words of folded().
std::vector<std::string> folded_words(std::string_view text);

struct Measure {
  int64_t characters = 0;
  int64_t letters = 0;
  double words = 0;  // apart by blanks; where a script does without them, two letters count as a word
};
Measure measure(std::string_view text);

// Text in a named character set as UTF-8, with U+FFFD for what cannot be decoded; throws an Error for a set that is not
// known.
std::string to_utf8(std::string_view text, const std::string& charset);

// A function that says how many bytes the first character of a text in a named character set takes, 1 or more of a text
// that is not empty; throws an Error for a set that is not known.
std::function<size_t(std::string_view text)> character_length_in(const std::string& charset);

}  // namespace fovea::text
