#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "fovea/nn/clauses.h"
#include "fovea/text/clause_dictionary.h"
#include "fovea/text/encoder_vocab.h"

namespace fovea::tagging {

// Words of a sentence as the encoder reads them.
struct Part {
  std::vector<int64_t> tokens;  // with those around the sequence
  std::vector<int64_t> firsts;  // the place of each word's first piece in `tokens`
  std::vector<uint8_t> levels;  // for each token the level from which on a clause begins with it (0: in none), if asked
};

// Finds the clauses of sentences, for models whose mechanisms need them.
class ClauseFinder {
 public:
  // `dictionary` must outlive this; null: the model needs no clauses.
  explicit ClauseFinder(const text::ClauseDictionary* dictionary) : dictionary_(dictionary) {}
  bool is_needed() const { return dictionary_ != nullptr; }
  // For each word the level from which on a clause begins with it, 0: in none. `tags` may be empty. Nothing if no
  // clauses are needed.
  std::vector<uint8_t> levels(std::span<const std::string> words, std::span<const std::string> tags) const;

 private:
  const text::ClauseDictionary* dictionary_;
};

// Cuts words into pieces, and remembers those of words that it has seen.
class SentenceEncoder {
 public:
  // A sequence has at most `most` tokens (0: no limit). `vocab` must outlive this.
  SentenceEncoder(const text::EncoderVocab& vocab, int64_t most) : vocab_(vocab), most_(most) {}
  // Returns one part, or as many as the limit needs, each of whole words. If a word is longer than a sequence, its
  // pieces behind the limit are left out. `levels` are those of the words' clauses, or none: then parts have none. A
  // token before the first word of a part belongs to that word's clause, one behind the last to the last one's.
  std::vector<Part> encode(std::span<const std::string> words, std::span<const uint8_t> levels = {});

 private:
  const std::vector<int64_t>& pieces_of(const std::string& word);
  const text::EncoderVocab& vocab_;
  int64_t most_;
  std::unordered_map<std::string, std::vector<int64_t>> known_;
};

// The tags of sentence s, if there are any.
inline std::span<const std::string> tags_of(std::span<const std::vector<std::string>> tags, size_t s) {
  return tags.empty() ? std::span<const std::string>() : std::span<const std::string>(tags[s]);
}

// Several parts behind each other.
struct TagBatch {
  std::vector<int64_t> tokens, offsets = {0};
  std::vector<int64_t> firsts;  // of all words, in `tokens`
  std::vector<uint8_t> levels;  // of all tokens, or none
  void add(std::span<const int64_t> part_tokens, std::span<const int64_t> part_firsts,
           std::span<const uint8_t> part_levels);
  // The beginnings of the tokens' clauses; null without levels.
  std::shared_ptr<const nn::Clauses> clauses() const;
};

}  // namespace fovea::tagging
