#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace fovea::metrics {

// NumPy's default generator (PCG64 seeded by SeedSequence), whose stream sacreBLEU's confidence intervals hang on.
class NumpyRandom {
 public:
  explicit NumpyRandom(uint32_t seed);
  uint32_t below(uint32_t bound);  // in [0, bound), as Generator.integers draws it

 private:
  __extension__ using Wide = unsigned __int128;
  void step();
  uint64_t next64();
  uint32_t next32();
  Wide state_ = 0, increment_ = 0;
  uint32_t spare_ = 0;  // the upper half of the last 64 bits
  bool has_spare_ = false;
};

inline constexpr uint32_t kBootstrapSeed = 12345;

struct Resampling {
  size_t segments = 0;
  int64_t samples = 1000;
  uint32_t seed = kBootstrapSeed;
};

// Returns the score of each resample, in the order drawn; `score` gets the numbers of the drawn segments. Equal
// settings draw equal segments, so the scores of two systems belong together pair by pair.
std::vector<double> resampled_scores(const Resampling& resampling,
                                     const std::function<double(const std::vector<uint32_t>&)>& score);

struct Interval {
  double mean = 0, half_width = 0;
};

// Returns the mean of resampled scores, and half the width of their 95% interval.
Interval interval_of(std::vector<double> scores);

// The difference of a system from a baseline: that of their scores (above 0: the system's is higher), its 95% interval,
// and the probability of so large a difference if the two were equally good.
struct Comparison {
  double difference = 0, low = 0, high = 0, p = 1;
};

// Returns the comparison of two systems by their scores on the same resamples (Koehn 2004), with sacreBLEU's p. The one
// exception is two systems that score the same in every resample: their p is 1 (sacreBLEU: 1 / (resamples + 1)).
Comparison compare(double difference, std::span<const double> system, std::span<const double> baseline);

}  // namespace fovea::metrics
