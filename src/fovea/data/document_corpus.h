#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/corpus.h"

// Documents as blocks of whole sentences (base/documents.h says where documents begin).
namespace fovea::data {

inline constexpr int64_t kDefaultBlockTokens = 512;

// The numbers of tokens of a sentence, or of a block, on each side; </s> of each sentence counts.
struct BlockLength {
  int64_t source = 0, target = 0;
};

// Says where blocks begin: a sentence joins the block before it if both sides then have at most `limit` tokens.
class BlockCutter {
 public:
  explicit BlockCutter(int64_t limit) : limit_(limit) {}
  // Returns whether the next sentence begins a block.
  bool begins_block(const BlockLength& sentence);
  void end_document() { block_.reset(); }

 private:
  int64_t limit_;
  std::optional<BlockLength> block_;  // the one that goes on, if any
};

// Cuts the tokens of a sentence, without </s>, to what a block of `limit` tokens holds; returns whether it was longer.
bool cut_to_block(std::vector<int64_t>& tokens, int64_t limit);

struct DocumentOptions {
  int64_t block_tokens = kDefaultBlockTokens;
  int threads = 1;
  bool trains = false;  // as in CorpusOptions
};

// Returns blocks in place of sentences: in each, every sentence ends in </s>, and on the target's side another </s>
// ends the block. Throws if the files differ in their number of lines or in where documents begin, or have no sentence.
ParallelCorpus load_documents(const ParallelText& text, const text::Vocab& source, const text::Vocab& target,
                              const DocumentOptions& options);

// The blocks of two files, without ever holding the text of a large corpus. Throws like load_documents().
TextReport encode_documents(const std::string& source_path, const std::string& target_path, const text::Vocab& source,
                            const text::Vocab& target, const DocumentOptions& options, PairSink& sink);

}  // namespace fovea::data
