#pragma once
#include <cstdint>

#include "fovea/kernels/attention/cpu/screen.h"

namespace fovea::kernels {

// Guesses how high a row's threshold ends, from the scores of the first block that it sees whole and from where earlier
// rows of the same keys ended: a row that starts at its final threshold lists few keys, instead of approaching it from
// below. A guess proves nothing. Who uses one must see at the end whether the threshold came as high, and screen anew
// if not.
class ThresholdGuess {
 public:
  // Other keys: their scores may be distributed otherwise.
  void forget() { rows_ = 0; }
  // -infinity: none yet, scores all alike, or thresholds so low that a block itself tells them better.
  float of(const ScoreMoments& first_whole) const;
  // What a row ended with, if it saw a block whole. Guesses change with the next call of learn().
  void add(const ScoreMoments& first_whole, float threshold);
  void learn();

 private:
  // Thresholds, in deviations above the mean of that block.
  double mean_ = 0, variance_ = 0;
  double sum_ = 0, squares_ = 0;  // of the rows added since
  int64_t added_ = 0, rows_ = 0;
};

}  // namespace fovea::kernels
