#include <algorithm>

#include "fovea/base/strings.h"
#include "fovea/data/columns.h"
#include "fovea/metrics/find_notation.h"
#include "fovea/models/tagging/labels.h"
#include "fovea/tasks/bert/baseline.h"
#include "fovea/text/encoder_vocab.h"
#include "fovea/text/tokenizer_json.h"
#include "fovea/text/wordpiece.h"
#include "loaders/loaders.h"

// The readers of taggers and BERT.
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
    const text::WordPiece pieces(
        {.pieces = std::string(bytes.substr(0, end)), .options = {.lowercase = uncased, .strip_accents = uncased}},
        "vocab.txt");
    for (const int64_t id : pieces.encode(text)) require(id >= 0 && id < pieces.size(), "a piece is not in the list");
  }
}

void load_labels(std::string_view bytes) {
  const tagging::LabelSet labels = tagging::LabelSet::from_contents(std::string(bytes), "labels.txt");
  const tagging::LabelSet again =
      must_load([&] { return tagging::LabelSet::from_contents(labels.contents(), "written"); });
  require(again.names() == labels.names(), "labels change as they are written");
  std::vector<int64_t> ids;
  for (int64_t id = 0; id < labels.size(); ++id) ids.push_back(id);
  require(std::ssize(labels.decode(ids, metrics::LabelDialect::kIob1)) == labels.size(), "a label is lost");
  const std::vector<double> scores(ids.size() * 3, -1);
  require(best_labels(scores, labels).size() == 3, "a word has no label");
}

void load_word_piece_options(std::string_view bytes) {
  const text::EncoderVocab vocab = text::EncoderVocab::from_files(
      {{text::kWordPieceFile, "[UNK]\n[CLS]\n[SEP]\na\n"}, {text::kWordPieceOptionsFile, std::string(bytes)}}, "model");
  require(vocab.encode("a b").size() == 2, "words are lost");
}

void load_baseline(std::string_view bytes) {
  if (bytes.empty()) return;
  const int64_t layer = static_cast<unsigned char>(bytes[0]) % 4;
  const bert::BertScore baseline = bert::parse_baseline(split(bytes.substr(1), '\n'), "baseline.tsv", layer);
  for (const double value : {baseline.precision, baseline.recall, baseline.f1})
    require(value >= -1 && value < 1, "a baseline is not a mean of cosines below 1");
}

void load_tokenizer_json(std::string_view bytes) {
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  const text::WordPiece pieces(text::parse_tokenizer_json(std::string(bytes.substr(0, end)), "tokenizer.json"), "list");
  for (const int64_t id : pieces.encode(bytes.substr(std::min(end + 1, bytes.size()))))
    require(id >= 0 && id < pieces.size(), "a piece is not in the list");
}

}  // namespace fovea::fuzz
