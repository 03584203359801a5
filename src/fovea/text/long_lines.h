#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

// Lines that are too long for SentencePiece as they are: it joins neighbouring unknown pieces one by one, and copies
// what it has joined so far each time.
namespace fovea::text {

// Longer lines are looked at.
inline constexpr size_t kLongLine = 8192;

// A line without the middle of its long unknown runs, each of which is one unknown piece with it or without.
struct ShortLine {
  struct Cut {
    size_t at = 0, bytes = 0;  // in `text`; of the line that are left out there and at the cuts before
  };
  std::string text;
  std::vector<Cut> cuts;  // in their order
  // The place in the line of a place in the text: behind the cuts before it.
  size_t in_line(size_t at) const;
  // Whether bytes [begin, end) of the text have a cut between them.
  bool has_cut(size_t begin, size_t end) const;
};

// `is_unknown` says whether a text is unknown as a whole: no character of it, and no characters of it together, are a
// piece. Pieces and rules of normalisation that are longer than 1,000 bytes are not looked for.
ShortLine without_long_runs(std::string_view line, const std::function<bool(std::string_view text)>& is_unknown);

// The parts of a line of at least `least` bytes, except for the last one, that end between characters, or before the
// first blank behind a word.
enum class PartEnd : unsigned char { kCharacter, kWord };
std::vector<std::string_view> parts_of_line(std::string_view line, PartEnd end, size_t least);

}  // namespace fovea::text
