#pragma once
#include <cstdint>

#include "fovea/kernels/attention/cpu/screen.h"

namespace fovea::kernels {

// Guesses how high a row's threshold ends, from the scores of the first block that it sees whole and from the final
// thresholds of earlier rows with the same keys. A row that starts at its final threshold lists few keys, instead of
// approaching the threshold from below. A guess proves nothing: at the end its user must check whether the threshold
// came as high, and screen again if not.
class ThresholdGuess {
 public:
  // Call this before rows with other keys, whose scores may be distributed differently.
  void forget() { rows_ = 0; }
  // -infinity if there is no guess yet, if scores are all alike, or if the block itself gives a better threshold.
  float of(const ScoreMoments& first_whole) const;
  // Records the final threshold of a row that saw a block whole. Guesses change with the next call of learn().
  void add(const ScoreMoments& first_whole, float threshold);
  void learn();

 private:
  // Moments of the final thresholds, in deviations above the mean of that first block.
  double mean_ = 0, variance_ = 0;
  double sum_ = 0, squares_ = 0;  // of the rows added since
  int64_t added_ = 0, rows_ = 0;
};

}  // namespace fovea::kernels
