#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "fovea/metrics/chunks.h"

namespace fovea::metrics {

// Counts the chunks that are written as each dialect writes them.
class DialectVotes {
 public:
  explicit DialectVotes(const LabelForm& form) : form_(form) {}
  void add(std::span<const std::string> labels);  // of one sentence

  int64_t chunks() const { return chunks_; }
  bool has_long_chunk() const { return has_long_chunk_; }  // of two words or more
  // The dialect of most chunks; of equal ones the likeliest.
  LabelDialect winner() const;
  // The share of the chunks that are written in the winner's dialect; 0 without chunks.
  double share() const;

 private:
  LabelForm form_;
  std::array<int64_t, static_cast<size_t>(LabelDialect::kWords)> votes_ = {};  // by dialect
  int64_t chunks_ = 0;
  bool has_long_chunk_ = false;
};

// The first word of the chunk `place` whose letter is not the one of the dialect; -1 if all words' are. `labels` are
// those of the sentence.
int64_t first_odd_word(std::span<const std::string> labels, std::span<const Chunk> chunks, size_t place,
                       const LabelNotation& notation);

}  // namespace fovea::metrics
