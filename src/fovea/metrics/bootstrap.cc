#include "fovea/metrics/bootstrap.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "fovea/base/signals.h"

namespace fovea::metrics {
namespace {

// The words that NumPy's SeedSequence makes of one 32-bit seed (O'Neill's seed_seq_fe with a pool of four).
class SeedWords {
 public:
  explicit SeedWords(uint32_t seed) {
    uint32_t constant = 0x43b0d7e5;
    const auto hash = [&constant](uint32_t value) {
      value ^= constant;
      constant *= 0x931e8875;
      value *= constant;
      return value ^ (value >> 16);
    };
    for (size_t i = 0; i < pool_.size(); ++i) pool_[i] = hash(i == 0 ? seed : 0);
    for (size_t from = 0; from < pool_.size(); ++from) {
      for (size_t to = 0; to < pool_.size(); ++to) {
        if (from == to) continue;
        const uint32_t mixed = 0xca01f9ddU * pool_[to] - 0x4973f715U * hash(pool_[from]);
        pool_[to] = mixed ^ (mixed >> 16);
      }
    }
  }

  uint64_t next64() {
    const uint64_t low = next32();
    return low | (static_cast<uint64_t>(next32()) << 32);
  }

 private:
  uint32_t next32() {
    uint32_t word = pool_[next_++ % pool_.size()] ^ constant_;
    constant_ *= 0x58f38ded;
    word *= constant_;
    return word ^ (word >> 16);
  }

  std::array<uint32_t, 4> pool_{};
  uint32_t constant_ = 0x8b51f9dd;
  size_t next_ = 0;
};

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The bounds between which 95% of the values lie.
std::pair<double, double> middle_95(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t cut = values.size() / 40;
  return {values[cut], values[values.size() - cut - 1]};
}

}  // namespace

NumpyRandom::NumpyRandom(uint32_t seed) {
  SeedWords words(seed);
  const auto wide = [&words] {
    const uint64_t high = words.next64();
    return (Wide{high} << 64) | words.next64();
  };
  const Wide start = wide();
  increment_ = (wide() << 1) | 1;
  step();
  state_ += start;
  step();
}

void NumpyRandom::step() {
  constexpr Wide kMultiplier = (Wide{2549297995355413924ULL} << 64) | 4865540595714422341ULL;
  state_ = state_ * kMultiplier + increment_;
}

uint64_t NumpyRandom::next64() {
  step();
  const auto mixed = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  return std::rotr(mixed, static_cast<int>(state_ >> 122));
}

uint32_t NumpyRandom::next32() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const uint64_t bits = next64();
  spare_ = static_cast<uint32_t>(bits >> 32);
  has_spare_ = true;
  return static_cast<uint32_t>(bits);
}

// Lemire's method (2019): reject what would favour some numbers.
uint32_t NumpyRandom::below(uint32_t bound) {
  if (bound <= 1) return 0;
  const uint32_t threshold = (0U - bound) % bound;
  for (;;) {
    const uint64_t product = uint64_t{next32()} * bound;
    if (static_cast<uint32_t>(product) >= threshold) return static_cast<uint32_t>(product >> 32);
  }
}

std::vector<double> resampled_scores(const Resampling& resampling,
                                     const std::function<double(const std::vector<uint32_t>&)>& score) {
  NumpyRandom random(resampling.seed);
  std::vector<uint32_t> drawn(resampling.segments);
  std::vector<double> scores;
  for (int64_t i = 0; i < resampling.samples; ++i) {
    throw_if_interrupted("resampling");
    for (uint32_t& segment : drawn) segment = random.below(static_cast<uint32_t>(resampling.segments));
    scores.push_back(score(drawn));
  }
  return scores;
}

Interval interval_of(std::vector<double> scores) {
  const auto [low, high] = middle_95(scores);
  return {.mean = mean_of(scores), .half_width = 0.5 * (high - low)};
}

Comparison compare(double difference, std::span<const double> system, std::span<const double> baseline) {
  std::vector<double> differences, sizes;
  for (size_t i = 0; i < system.size(); ++i) {
    differences.push_back(system[i] - baseline[i]);
    sizes.push_back(std::abs(differences.back()));
  }
  const auto [low, high] = middle_95(differences);
  Comparison comparison{.difference = difference, .low = low, .high = high};
  const double expected = mean_of(sizes);
  if (difference == 0 && expected == 0) return comparison;
  const auto larger = std::ranges::count_if(sizes, [&](double size) { return size - expected > std::abs(difference); });
  comparison.p = static_cast<double>(larger + 1) / static_cast<double>(sizes.size() + 1);
  return comparison;
}

}  // namespace fovea::metrics
