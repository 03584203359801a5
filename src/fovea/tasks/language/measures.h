#pragma once
#include <cstdint>

#include "fovea/models/given_score.h"
#include "fovea/train/measure.h"

namespace fovea::language {

// The measured values of a text under a model.
struct TextScore : models::GivenScore {  // the tokens are the text's units
  int64_t bytes = 0, words = 0;          // of the original text
  bool operator==(const TextScore&) const = default;
};

// bits-per-byte, bits-per-unit, perplexity (per unit), perplexity-per-word (per word of the original text), accuracy.
// A value is NaN if the text has none of what it is per.
const train::MeasureTable<const TextScore>& measures();

}  // namespace fovea::language
