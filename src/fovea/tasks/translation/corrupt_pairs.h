#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "fovea/tasks/translation/pair_reader.h"

namespace fovea::translation {

// Ways of making a pair wrong through its target.
enum class Corruption : uint8_t {
  kShuffled,     // another pair's target
  kNeighbour,    // the target, with another text, of the pair whose target is nearest in length
  kHalved,       // its first half
  kSwapped,      // one word replaced by a word of another pair's target
  kInserted,     // a clause of another pair's target appended: words up to a punctuation mark
  kUntranslated  // the source
};
inline constexpr std::string_view kCorruptions = "shuffled|neighbour|halved|swapped|inserted|untranslated";

struct CorruptedPairs {
  std::vector<TextPair> good, bad;  // equally many: bad[i] is good[i] made wrong
};

// Pairs that cannot be made wrong are left out: those with an empty side, a target of one word to halve, or a source
// that equals the target. Lengths are in words, or in characters if most of the targets have no blanks. A function of
// the pairs and the seed.
CorruptedPairs corrupt(const std::vector<TextPair>& pairs, Corruption how, uint64_t seed);

}  // namespace fovea::translation
