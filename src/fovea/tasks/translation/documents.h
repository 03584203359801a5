#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/spec/decode_config.h"
#include "fovea/tasks/translation/translator.h"

// Translation of documents, a sentence per line, in blocks of whole sentences (data/document_corpus.h).
namespace fovea::translation {

struct DocumentCounts {
  int64_t documents = 0, blocks = 0, lines = 0;
  int64_t uneven = 0;  // blocks whose translation has another number of sentences than their source
};

class DocumentTranslator {
 public:
  // The translator's search must have `ends_twice`.
  DocumentTranslator(Translator& translator, int64_t block_tokens);

  // Returns a line for each line of whole documents; lines that begin documents stay. A block whose translation has
  // more sentences than lines has the rest in its last line; one with fewer leaves its last lines empty.
  std::vector<std::string> translate(std::span<const std::string> lines);

  const DocumentCounts& counts() const { return counts_; }
  int64_t cut_lines() const { return cut_.count(); }
  int64_t block_tokens() const { return block_.tokens; }

 private:
  struct Block {
    Sentence tokens;
    std::vector<size_t> lines;
  };
  std::vector<Block> blocks_of(std::span<const std::string> lines);
  void fill(const Block& block, const Sentence& translation, std::vector<std::string>& lines);

  Translator& translator_;
  LineLimit block_;
  DocumentCounts counts_;
  LineWarnings cut_;
  int64_t lines_before_ = 0;  // of earlier calls
};

// `fovea translate --documents`. Returns the number of lines.
int64_t translate_documents(const DecodeConfig& config);

}  // namespace fovea::translation
