#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "fovea/data/columns.h"
#include "fovea/data/corpus.h"
#include "fovea/tasks/tagging/labels.h"
#include "fovea/text/encoder_vocab.h"

namespace fovea::tagging {

// Words of a sentence as the encoder reads them.
struct Part {
  std::vector<int64_t> tokens;  // with those around the sequence
  std::vector<int64_t> firsts;  // the place of each word's first piece in `tokens`
};

// Cuts words into pieces, and remembers those of words that it has seen.
class SentenceEncoder {
 public:
  // A sequence has at most `most` tokens (0: no limit). `vocab` must outlive this.
  SentenceEncoder(const text::EncoderVocab& vocab, int64_t most) : vocab_(vocab), most_(most) {}
  // One part, or as many as the limit needs, each of whole words. Of a word that is longer than a sequence, the
  // pieces behind the limit are left out.
  std::vector<Part> encode(std::span<const std::string> words);

 private:
  const std::vector<int64_t>& pieces_of(const std::string& word);
  const text::EncoderVocab& vocab_;
  int64_t most_;
  std::unordered_map<std::string, std::vector<int64_t>> known_;
};

// Several parts behind each other.
struct TagBatch {
  std::vector<int64_t> tokens, offsets = {0};
  std::vector<int64_t> firsts;  // of all words, in `tokens`
  void add(std::span<const int64_t> part_tokens, std::span<const int64_t> part_firsts);
};

// Training data: for each part the labels of its words (source) and its tokens (target).
struct TaggedText {
  data::ParallelCorpus parts;
  std::vector<int64_t> firsts;  // beside parts.source
  int64_t sentences = 0;        // of which the parts are
};
TaggedText encode_text(const data::LabelledText& text, const LabelSet& labels, SentenceEncoder& encoder);

// The tokens of some parts, and their words' labels.
struct LabelledBatch : TagBatch {
  std::vector<int64_t> labels;
};
LabelledBatch batch_of(const TaggedText& text, const data::Batch& parts);

}  // namespace fovea::tagging
