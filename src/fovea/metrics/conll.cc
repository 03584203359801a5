#include "fovea/metrics/conll.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::metrics {
namespace {

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string right_aligned(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

// "%6.2f" of a share in percent.
std::string percent(double value) { return right_aligned(fixed(100 * value, 2), 6); }

std::string scores_of(const ChunkCounts& counts) {
  return cat("precision: ", percent(counts.precision()), "%; recall: ", percent(counts.recall()),
             "%; FB1: ", percent(counts.f1()));
}

}  // namespace

ChunkCounts& ChunkCounts::operator+=(const ChunkCounts& other) {
  gold += other.gold;
  found += other.found;
  correct += other.correct;
  return *this;
}

double ChunkCounts::precision() const { return share(correct, found); }
double ChunkCounts::recall() const { return share(correct, gold); }
double ChunkCounts::f1() const { return share(2 * correct, gold + found); }

void ConllScore::add(const LabelledChunks& gold, const LabelledChunks& found) {
  if (gold.labels.size() != found.labels.size())
    throw Error(cat("got ", found.labels.size(), " labels for a sentence of ", gold.labels.size(),
                    " words; expected one a word"));
  tokens_ += std::ssize(gold.labels);
  for (size_t i = 0; i < gold.labels.size(); ++i) equal_ += gold.labels[i] == found.labels[i] ? 1 : 0;
  for (const Chunk& chunk : gold.chunks) ++types_[{chunk.type, chunk.is_word}].gold;
  for (const Chunk& chunk : found.chunks) {
    ChunkCounts& counts = types_[{chunk.type, chunk.is_word}];
    ++counts.found;
    counts.correct += std::ranges::binary_search(gold.chunks, chunk) ? 1 : 0;
  }
}

void ConllScore::add(std::span<const std::string> gold, std::span<const std::string> found) {
  const std::vector<Chunk> wanted = chunks_of(gold), got = chunks_of(found);
  add({gold, wanted}, {found, got});
}

ChunkCounts ConllScore::total() const {
  ChunkCounts sum = chunks();
  sum += words();
  return sum;
}

ChunkCounts ConllScore::chunks() const {
  ChunkCounts sum;
  for (const auto& [type, counts] : types_) {
    if (!type.is_word) sum += counts;
  }
  return sum;
}

ChunkCounts ConllScore::words() const {
  ChunkCounts sum;
  for (const auto& [type, counts] : types_) {
    if (type.is_word) sum += counts;
  }
  return sum;
}

double ConllScore::accuracy() const { return share(equal_, tokens_); }

std::string ConllScore::report() const {
  const ChunkCounts all = total();
  std::string text =
      cat("processed ", tokens_, " tokens with ", all.gold, " phrases; found: ", all.found,
          " phrases; correct: ", all.correct, ".\n", "accuracy: ", percent(accuracy()), "%; ", scores_of(all), "\n");
  for (const auto& [type, counts] : types_)
    text += cat(right_aligned(one_line(type.name), 17), ": ", scores_of(counts), "  ", counts.found, "\n");
  return text;
}

}  // namespace fovea::metrics
