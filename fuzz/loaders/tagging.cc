#include <algorithm>

#include "fovea/data/columns.h"
#include "fovea/metrics/find_notation.h"
#include "fovea/text/wordpiece.h"
#include "loaders/loaders.h"

// What taggers and BERT read.
namespace fovea::fuzz {
namespace {

// Chunks that are written in any dialect are read as they were. IO cannot tell chunks that touch.
void check_labels(const std::vector<std::string>& labels, const metrics::LabelForm& form) {
  const std::vector<metrics::Chunk> chunks = metrics::chunks_of(labels, form);
  for (const metrics::LabelDialect dialect : metrics::chunk_dialects()) {
    if (dialect == metrics::LabelDialect::kIo || !form.marks_chunks()) continue;
    const std::vector<std::string> written = metrics::labels_of(chunks, std::ssize(labels), {dialect, form});
    require(metrics::chunks_of(written, form) == chunks, "chunks change as they are written");
  }
}

}  // namespace

void load_columns(std::string_view bytes) {
  static const MemoryFile file;
  const data::LabelledText text = data::load_columns({file.put(bytes)}, {});
  require(text.size() > 0 && text.words.size() == text.labels.size(), "sentences and labels differ in number");
  const metrics::FoundNotation found = metrics::find_notation(text.labels);
  for (size_t s = 0; s < text.words.size(); ++s) {
    require(!text.words[s].empty() && text.words[s].size() == text.labels[s].size(),
            "words and labels differ in number");
    check_labels(text.labels[s], {});
    check_labels(text.labels[s], found.notation.form);
  }
}

void load_word_pieces(std::string_view bytes) {
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  const std::string_view text = bytes.substr(std::min(end + 1, bytes.size()));
  for (const bool uncased : {false, true}) {
    const text::WordPiece pieces(std::string(bytes.substr(0, end)), "vocab.txt",
                                 {.lowercase = uncased, .strip_accents = uncased});
    for (const int64_t id : pieces.encode(text)) require(id >= 0 && id < pieces.size(), "a piece is not in the list");
  }
}

}  // namespace fovea::fuzz
