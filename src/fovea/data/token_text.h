#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/text/units.h"

namespace fovea::data {

// The beginnings of a text's documents: only at its beginning; at the first line with text behind lines without any,
// which belong to the document before; or at the beginning of each file. The names are those of --documents.
enum class Documents : uint8_t { kNo, kBlank, kFile };
inline constexpr std::string_view kDocumentsNames = "no|blank|file";

// A text as units.
struct TokenText {
  std::vector<int32_t> ids;
  std::vector<int64_t> documents;  // the place in `ids` of each document's first unit; {0} with Documents::kNo
  // Counts of the text as the files have it, unpacked. Words are separated by white space; a last line without an end
  // is a line.
  int64_t bytes = 0, words = 0, lines = 0;
  int64_t size() const { return static_cast<int64_t>(ids.size()); }
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

// Reads text files, plain or compressed; "-" is standard input. Unless units have lines, Units::eos() ends each
// document but the last. Throws an Error for a missing file, for a text without units and, except with bytes, for a
// text that is not UTF-8 or that has NUL bytes.
TokenText load_token_text(const std::vector<std::string>& paths, const text::Units& units,
                          const TokenTextOptions& options);

// XXH3 of all units and of the places of documents: tells whether a run resumes with the text that it began with.
std::string fingerprint(const TokenText& text);

}  // namespace fovea::data
