#pragma once
#include <bit>
#include <cstdint>

#include "fovea/kernels/attention/cpu/screen.h"

namespace fovea::kernels {

// Score j of a row that a product wrote, in units of the steps if the format is of integers.
inline double screened_score(ScreenFormat format, const uint32_t* row, int64_t j) {
  const bool is_pair = score_type(format) == ScoreType::kInt16;
  const int64_t place = is_pair ? place_of_pair_key(j) : j;
  const uint32_t word = row[place / scores_per_word(format)];
  if (is_pair) return static_cast<int16_t>(word >> (place % 2 * 16));
  return is_integer(format) ? static_cast<double>(static_cast<int32_t>(word)) : double{std::bit_cast<float>(word)};
}

}  // namespace fovea::kernels
