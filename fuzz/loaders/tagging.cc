#include <algorithm>

#include "fovea/data/columns.h"
#include "fovea/metrics/chunks.h"
#include "fovea/text/tokenizer_json.h"
#include "fovea/text/wordpiece.h"
#include "loaders/loaders.h"

// What taggers and BERT read.
namespace fovea::fuzz {
namespace {

using metrics::LabelDialect;

// Chunks that are written in any dialect are read as they were.
void check_labels(const std::vector<std::string>& labels) {
  const std::vector<metrics::Chunk> chunks = metrics::chunks_of(labels);
  for (const LabelDialect dialect :
       {LabelDialect::kIob1, LabelDialect::kIob2, LabelDialect::kIobes, LabelDialect::kBilou}) {
    const std::vector<std::string> written = metrics::labels_of(chunks, std::ssize(labels), dialect);
    require(metrics::chunks_of(written) == chunks, "chunks change as they are written");
  }
}

}  // namespace

void load_columns(std::string_view bytes) {
  static const MemoryFile file;
  const data::LabelledText text = data::load_columns({file.put(bytes)}, {});
  require(text.size() > 0 && text.words.size() == text.labels.size(), "sentences and labels differ in number");
  for (size_t s = 0; s < text.words.size(); ++s) {
    require(!text.words[s].empty() && text.words[s].size() == text.labels[s].size(),
            "words and labels differ in number");
    check_labels(text.labels[s]);
  }
}

void load_word_pieces(std::string_view bytes) {
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  const std::string_view text = bytes.substr(std::min(end + 1, bytes.size()));
  for (const bool uncased : {false, true}) {
    const text::WordPiece pieces(
        {.pieces = std::string(bytes.substr(0, end)), .options = {.lowercase = uncased, .strip_accents = uncased}},
        "vocab.txt");
    for (const int64_t id : pieces.encode(text)) require(id >= 0 && id < pieces.size(), "a piece is not in the list");
  }
}

void load_tokenizer_json(std::string_view bytes) {
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  const text::WordPiece pieces(text::parse_tokenizer_json(std::string(bytes.substr(0, end)), "tokenizer.json"), "list");
  for (const int64_t id : pieces.encode(bytes.substr(std::min(end + 1, bytes.size()))))
    require(id >= 0 && id < pieces.size(), "a piece is not in the list");
}

}  // namespace fovea::fuzz
