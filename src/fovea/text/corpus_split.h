#pragma once
#include <array>
#include <vector>

#include "fovea/text/corpus.h"

namespace fovea::text {

// train, valid, test.
using Split = std::array<std::vector<Pair>, 3>;
inline constexpr std::array<const char*, 3> kPartNames = {"train", "valid", "test"};

// Sets aside `valid` and `test` pairs with different sources. Which ones hangs on the seed and the sources alone, not
// on the order of the pairs; a source that differs in case or punctuation only is the same source, and no source stands
// in two parts. Throws if there are not enough.
Split split_corpus(std::vector<Pair> pairs, const CorpusOptions& options);

}  // namespace fovea::text
