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
  // Moments of how far the final thresholds lay above a score of that first block, in its deviations.
  struct Heights {
    double mean = 0, variance = 0;
    double sum = 0, squares = 0;  // of the rows added since
    void add(double height);
    void learn(int64_t added, int64_t rows);
    double least() const;
  };
  // Above the mean, which is exact where rows are distributed alike; above a high score, which follows rows that are
  // not, as those of trained models. The one that varies less counts.
  Heights above_mean_, above_high_;
  int64_t added_ = 0, rows_ = 0;
};

}  // namespace fovea::kernels
