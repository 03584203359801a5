#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// Groups of segments by the length of a text, from the shortest to the longest, for scores by length.
namespace fovea::metrics {

// Equally many segments, give or take one, in the order of the text.
struct Band {
  int64_t shortest = 0, longest = 0;  // of the lines of these segments
  std::vector<uint32_t> segments;
};

struct Bands {
  std::string unit;  // of the lengths: "words", or "characters" if the text puts no blanks between words
  std::vector<Band> bands;
};

// Cuts the segments into `count` bands by the lengths of these lines, one per segment. Lines of equal length go by
// their order. Throws an Error if there are fewer lines than bands.
Bands bands_by_length(std::span<const std::string> lines, int64_t count);

}  // namespace fovea::metrics
