#include "fovea/metrics/dialect_votes.h"

#include <algorithm>

namespace fovea::metrics {

int64_t first_odd_word(std::span<const std::string> labels, std::span<const Chunk> chunks, size_t place,
                       const LabelNotation& notation) {
  const Chunk& chunk = chunks[place];
  const ChunkTouch touch = touch_of(chunks, place);
  for (int64_t word = chunk.begin; word < chunk.end; ++word) {
    const char own = parts_of_label(labels[static_cast<size_t>(word)], notation.form).letter;
    if (own != letter_of_word(chunk, word, notation.dialect, touch)) return word;
  }
  return -1;
}

void DialectVotes::add(std::span<const std::string> labels) {
  const std::vector<Chunk> chunks = chunks_of(labels, form_);
  for (size_t place = 0; place < chunks.size(); ++place) {
    if (chunks[place].is_word) continue;
    ++chunks_;
    has_long_chunk_ = has_long_chunk_ || chunks[place].end - chunks[place].begin > 1;
    for (const LabelDialect dialect : chunk_dialects()) {
      if (first_odd_word(labels, chunks, place, {dialect, form_}) < 0) ++votes_.at(static_cast<size_t>(dialect));
    }
  }
}

LabelDialect DialectVotes::winner() const {
  const auto votes = [&](LabelDialect dialect) { return votes_.at(static_cast<size_t>(dialect)); };
  return *std::ranges::max_element(chunk_dialects(), {}, votes);
}

double DialectVotes::share() const {
  if (chunks_ == 0) return 0;
  return static_cast<double>(votes_.at(static_cast<size_t>(winner()))) / static_cast<double>(chunks_);
}

}  // namespace fovea::metrics
