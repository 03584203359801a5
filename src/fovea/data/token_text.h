#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/data/corpus.h"
#include "fovea/data/unit_source.h"
#include "fovea/text/units.h"

namespace fovea::data {

// Finds documents that lines without visible text (base/empty_line.h) separate.
class DocumentFinder {
 public:
  // The places in `text` at which a document begins, except the first of all. Each text continues the one before, and
  // none ends inside a character.
  std::vector<size_t> find(std::string_view text);

 private:
  bool seen_text_ = false;     // in any line
  bool after_blank_ = false;   // there was a line without text behind the last text
  bool line_is_blank_ = true;  // the line that goes on, so far
};

// The beginnings of a text's documents: only at its beginning; at the first line with text behind lines without any,
// which belong to the document before; or at the beginning of each file. The names are those of --documents.
enum class Documents : uint8_t { kNo, kBlank, kFile };
inline constexpr std::string_view kDocumentsNames = "no|blank|file";

// Counts of a text as the files have it, decompressed. Words are separated by white space; a last line without an end
// is a line.
struct TextCounts {
  int64_t bytes = 0, words = 0, lines = 0;
};

// A text as units, in memory.
struct TokenText : UnitSource, TextCounts {
  std::vector<int32_t> ids;
  std::vector<int64_t> documents;  // the place in `ids` of each document's first unit; {0} with Documents::kNo
  int64_t size() const override { return static_cast<int64_t>(ids.size()); }
  void read(int64_t begin, int64_t end, std::vector<int64_t>& out) const override;
  std::vector<int64_t> documents_in(int64_t begin, int64_t end) const override;
  std::string fingerprint() const override;
  // The place behind the last unit of a document.
  int64_t document_end(size_t document) const {
    return document + 1 < documents.size() ? documents[document + 1] : size();
  }
};

struct TokenTextOptions {
  Documents documents = Documents::kNo;
  int threads = 1;                      // that encode; the result does not depend on it
  std::string option = "--train-sets";  // that named the files, for messages
  bool trains = false;                  // a model learns to write the text: warn if the vocabulary changes many lines
};

struct EncodedText {
  TextCounts counts;
  TextReport report;
};

// Reads text files, plain or compressed, and encodes them without ever holding a large text; "-" is standard input.
// Unless units have lines, Units::eos() ends each document but the last. If they have, it also ends a last line without
// an end of its own, if a file with text follows. Throws an Error for a missing file, for a text without units and,
// except with bytes, for a text that is not UTF-8 or that has NUL bytes.
EncodedText encode_units(const std::vector<std::string>& paths, const text::Units& units,
                         const TokenTextOptions& options, UnitSink& sink);

// The units of encode_units(), held; logs its report.
TokenText load_token_text(const std::vector<std::string>& paths, const text::Units& units,
                          const TokenTextOptions& options);

}  // namespace fovea::data
