#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "fovea/base/rng.h"

namespace fovea::metrics {

// An n-gram packed into 128 bits: up to four words of 32 bits or six characters of 21. Grams of different n are kept
// in different counters.
__extension__ using Gram = unsigned __int128;

struct GramHash {
  size_t operator()(Gram gram) const {
    return hash_combine(static_cast<uint64_t>(gram >> 64), static_cast<uint64_t>(gram));
  }
};
// A word, by its number.
constexpr int kWordBits = 32;
using GramCounts = std::unordered_map<Gram, int64_t, GramHash>;

// Numbers for the words of one segment: equal words, equal numbers.
class WordNumbers {
 public:
  uint32_t operator()(std::u32string_view word) {
    return numbers_.try_emplace(std::u32string(word), static_cast<uint32_t>(numbers_.size())).first->second;
  }

 private:
  std::unordered_map<std::u32string, uint32_t> numbers_;
};

// Counts of all n-grams of `items`; `bits` an item.
template <class Items>
GramCounts count_grams(const Items& items, size_t n, int bits) {
  GramCounts counts;
  if (items.size() < n) return counts;
  counts.reserve(items.size());
  for (size_t i = 0; i + n <= items.size(); ++i) {
    Gram gram = 0;
    for (size_t j = 0; j < n; ++j) gram = (gram << bits) | static_cast<Gram>(items[i + j]);
    ++counts[gram];
  }
  return counts;
}

inline int64_t total_of(const GramCounts& counts) {
  int64_t total = 0;
  for (const auto& [gram, count] : counts) total += count;
  return total;
}

inline int64_t matches_of(const GramCounts& counts, const GramCounts& reference) {
  int64_t matches = 0;
  for (const auto& [gram, count] : counts) {
    const auto found = reference.find(gram);
    if (found != reference.end()) matches += count < found->second ? count : found->second;
  }
  return matches;
}

}  // namespace fovea::metrics
