#pragma once
#include <cstdint>

namespace fovea {

// Counter-based random numbers: a pure function of (key, counter), so every device, thread count and
// backward pass draws the same numbers without storing any.

// One round of SplitMix64's finaliser (Steele, Lea, Flood 2014): a bijection that mixes all bits.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr uint64_t hash_combine(uint64_t seed, uint64_t value) { return mix64(seed ^ mix64(value)); }

// 32-bit counter hash for masks inside vector loops: two rounds of multiply-xorshift ("lowbias32" constants,
// Wellons 2018) over the counter, keyed before and between. Vectorises in 32-bit lanes.
constexpr uint32_t kHash32First = 0x7feb352dU, kHash32Second = 0x846ca68bU, kHash32Key = 0x9e3779b9U;
constexpr uint32_t hash32(uint32_t key, uint32_t counter) {
  uint32_t x = counter ^ key;
  x = (x ^ (x >> 16)) * kHash32First;
  x = (x ^ (x >> 15)) * kHash32Second;
  x ^= (x >> 16) ^ (key * kHash32Key);
  x = (x ^ (x >> 16)) * kHash32First;
  x = (x ^ (x >> 15)) * kHash32Second;
  return x ^ (x >> 16);
}

// A small sequential generator over mix64 for the host: shuffles, initialisation, tests.
class Rng {
 public:
  using result_type = uint64_t;
  explicit constexpr Rng(uint64_t seed, uint64_t stream = 0) : key_(hash_combine(seed, stream)) {}
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~uint64_t{0}; }
  constexpr uint64_t operator()() { return mix64(key_ + 0x9e3779b97f4a7c15ULL * ++count_); }
  // In [0, bound), bound > 0. The bias is at most bound / 2^64.
  constexpr uint64_t below(uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>((*this)()) * bound) >> 64);
  }
  // In [0, 1), 53 bits.
  constexpr double uniform() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }
  double normal();  // mean 0, variance 1 (Box-Muller, one of the pair)
  constexpr uint64_t count() const { return count_; }
  constexpr void seek(uint64_t count) { count_ = count; }

 private:
  uint64_t key_;
  uint64_t count_ = 0;
};

}  // namespace fovea
