#pragma once
#include <string>
#include <vector>

#include "fovea/text/sentencepiece_model.h"

namespace fovea::text {

struct UnitCounts {
  std::vector<CountedPiece> units;  // the most frequent first; equally frequent ones in the order of their bytes
  int64_t total = 0;                // units of the text
};

// Counts the words or the characters of text files, plain or compressed, all of them and in memory for the different
// ones alone. Line ends are not counted, and the word "<unk>" counts as unknown. Throws an Error if a file is not text.
UnitCounts count_units(const std::vector<std::string>& paths, VocabType type);

}  // namespace fovea::text
