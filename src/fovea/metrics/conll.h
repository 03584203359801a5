#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "fovea/metrics/chunks.h"

// The scores of labelled words as the script conlleval of the CoNLL shared tasks counts them.
namespace fovea::metrics {

struct ChunkCounts {
  int64_t gold = 0, found = 0, correct = 0;
  ChunkCounts& operator+=(const ChunkCounts& other);
  // Shares from 0 to 1; 0 if there is nothing to divide by, like in conlleval.
  double precision() const;
  double recall() const;
  double f1() const;
};

// The labels of one sentence, and the chunks that they mark.
struct LabelledChunks {
  std::span<const std::string> labels;
  std::span<const Chunk> chunks;
};

class ConllScore {
 public:
  // The labels of one sentence, as many of both. A chunk is correct if both have it, with its type.
  void add(const LabelledChunks& gold, const LabelledChunks& found);
  // Like add() above, for labels in the usual form.
  void add(std::span<const std::string> gold, std::span<const std::string> found);

  ChunkCounts total() const;
  ChunkCounts chunks() const;  // of labels that mark chunks, such as names
  ChunkCounts words() const;   // of other labels
  double accuracy() const;     // share of words whose labels are equal
  int64_t tokens() const { return tokens_; }
  // conlleval's report: two lines about all chunks, and one line for each type. The types of labels that mark no chunks
  // are the labels themselves.
  std::string report() const;

 private:
  struct Type {
    std::string name;
    bool is_word;
    auto operator<=>(const Type&) const = default;
  };
  std::map<Type, ChunkCounts> types_;
  int64_t tokens_ = 0, equal_ = 0;
};

}  // namespace fovea::metrics
