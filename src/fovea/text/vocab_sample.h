#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace fovea::text {

// SentencePiece's trainer skips longer lines, and lines with U+2585, its mark for rare characters, without a word.
inline constexpr size_t kMaxVocabLineBytes = 4192;

struct LineSample {
  std::vector<std::string> lines;
  int64_t seen = 0;                    // lines that it was drawn from
  int64_t too_long = 0, reserved = 0;  // left out: longer than kMaxVocabLineBytes, with U+2585
  bool is_of_parts = false;            // all lines with text are too long; these are parts of them, cut at blanks
};

// A uniform sample of at most `most` lines of text files, plain or compressed, a function of the text and the seed.
// Throws an Error if a file is missing or not UTF-8.
LineSample sample_lines(const std::vector<std::string>& paths, int64_t most, uint64_t seed);

}  // namespace fovea::text
