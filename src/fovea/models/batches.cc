#include "fovea/models/batches.h"

#include <algorithm>
#include <numeric>

namespace fovea::models {

std::vector<std::vector<int64_t>> length_batches(std::span<const Sentence> sentences, const BatchLimits& limits) {
  std::vector<int64_t> order(sentences.size());
  std::iota(order.begin(), order.end(), 0);
  const auto length = [&](int64_t i) { return sentences[static_cast<size_t>(i)].size(); };
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return length(a) > length(b); });
  std::vector<std::vector<int64_t>> batches;
  int64_t words = 0;
  for (const int64_t i : order) {
    const auto size = static_cast<int64_t>(length(i));
    const bool full = batches.empty() || words + size > limits.max_words ||
                      static_cast<int64_t>(batches.back().size()) >= limits.max_sentences;
    if (full) {
      batches.emplace_back();
      words = 0;
    }
    batches.back().push_back(i);
    words += size;
  }
  return batches;
}

}  // namespace fovea::models
