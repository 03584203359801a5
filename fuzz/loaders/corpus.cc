#include "fovea/base/strings.h"
#include "fovea/text/corpus_clean.h"
#include "fovea/text/corpus_readers.h"
#include "fovea/text/sentences.h"
#include "loaders/loaders.h"

// The readers of `fovea corpus`, whose text is cleaned before it is trusted.
namespace fovea::fuzz {
namespace {

using text::Bitext;
using text::Kind;
using text::Pair;

const MemoryFile& corpus_file() {
  static const MemoryFile file;
  return file;
}
const MemoryFile& second_corpus_file() {
  static const MemoryFile file;
  return file;
}

bool is_line(const std::string& text) {
  return !text.empty() && is_valid_utf8(text) && text.find_first_of("\r\n") == std::string::npos;
}

// Checks the cleaned pairs, which go into line-aligned files.
void check_pairs(Bitext bitext, Kind kind) {
  const text::CorpusOptions options;
  text::Rewriter rewriter(options);
  text::SentenceSplitter splitter(bitext.target_lang);
  for (Pair& pair : bitext.pairs) {
    rewriter.rewrite(pair, kind);
    if (!is_valid_utf8(pair.target)) continue;
    for (const std::string& sentence : splitter.split(pair.target))
      require(pair.target.find(sentence) != std::string::npos, "a sentence is not in its text");
  }
  std::vector<text::CorpusReport::Count> dropped;
  text::drop_unusable(bitext.pairs, options, dropped);
  for (const Pair& pair : bitext.pairs)
    require(is_line(pair.source) && is_line(pair.target), "a side of a cleaned pair is not a line of UTF-8");
}

std::pair<std::string_view, std::string_view> two_files(std::string_view bytes) {
  const size_t end = bytes.find('\x1c');
  return {bytes.substr(0, end), end == std::string_view::npos ? "" : bytes.substr(end + 1)};
}

}  // namespace

void load_po(std::string_view bytes) { check_pairs(text::read_po(corpus_file().put(bytes)), Kind::kInterface); }
void load_tsv(std::string_view bytes) { check_pairs(text::read_tsv(corpus_file().put(bytes), 1, 2), Kind::kProse); }
void load_tmx(std::string_view bytes) { check_pairs(text::read_tmx(corpus_file().put(bytes), {}), Kind::kProse); }
void load_xliff(std::string_view bytes) { check_pairs(text::read_xliff(corpus_file().put(bytes)), Kind::kInterface); }

void load_aligned(std::string_view bytes) {
  const auto [source, target] = two_files(bytes);
  check_pairs(text::read_aligned(corpus_file().put(source), second_corpus_file().put(target)), Kind::kProse);
}

}  // namespace fovea::fuzz
