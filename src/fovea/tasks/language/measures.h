#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "fovea/train/task.h"

namespace fovea::language {

// The measured values of a text under a model.
struct TextScore {
  double nll = 0;                  // sum of -log p over its units, in nats
  int64_t units = 0, correct = 0;  // units scored, and how many of them were the most probable
  int64_t bytes = 0, words = 0;    // of the original text
  bool operator==(const TextScore&) const = default;
};

// bits-per-byte, bits-per-unit, perplexity (per unit), perplexity-per-word (per word of the original text), accuracy.
std::span<const train::Measure> measures();

// The value of one of these measures; NaN if the text has none of the measure's units.
double value_of(const TextScore& score, std::string_view measure);

}  // namespace fovea::language
