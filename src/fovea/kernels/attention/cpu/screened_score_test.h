#pragma once
#include <bit>
#include <cstdint>

#include "fovea/kernels/attention/cpu/screen.h"

namespace fovea::kernels {

// Score j of a row that a product wrote, in units of the steps if the format is of integers.
inline double screened_score(ScreenFormat format, const uint32_t* row, int64_t j) {
  const uint32_t word = row[j / scores_per_word(format)];
  if (score_type(format) == ScoreType::kInt16) return static_cast<int16_t>(word >> (j % 2 * 16));
  return is_integer(format) ? static_cast<double>(static_cast<int32_t>(word)) : double{std::bit_cast<float>(word)};
}

}  // namespace fovea::kernels
