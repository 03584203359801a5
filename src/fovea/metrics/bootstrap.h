#pragma once
#include <cstdint>
#include <functional>
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

struct Interval {
  double mean = 0, half_width = 0;
};

inline constexpr uint32_t kBootstrapSeed = 12345;

// Mean and half the width of the 95% interval of `score` over `samples` resamples of `segments` segments; `score` is
// given the drawn segments' numbers.
Interval bootstrap(size_t segments, int64_t samples, const std::function<double(const std::vector<uint32_t>&)>& score);

}  // namespace fovea::metrics
