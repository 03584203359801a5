#include <string>

#include "fovea/base/strings.h"
#include "fovea/text/clause_labels.h"
#include "fovea/text/clauses.h"
#include "loaders/loaders.h"

// Dictionaries of clauses.
namespace fovea::fuzz {

// The bytes are a dictionary, and a text that it splits.
void load_clauses(std::string_view bytes) {
  const text::ClauseDictionary dictionary = text::ClauseDictionary::parse(bytes, "clauses.txt");
  require(dictionary.bytes() == bytes, "a dictionary does not keep its bytes");
  const std::string line(bytes.substr(0, bytes.find('\n')));
  const std::vector<text::ClauseStart> starts = text::clause_starts(line, dictionary);
  size_t before = 0;
  for (int64_t level = 1; level <= text::kClauseLevels; ++level) {
    const std::vector<std::string> parts = text::clauses(line, starts, level);
    require(join(parts, "") == line, "joined clauses are not the text");
    require(parts.size() >= before, "a level has fewer clauses than the one below");
    before = parts.size();
  }
}

void load_corrections(std::string_view bytes) {
  static const MemoryFile file;
  for (const auto& [word, label] : text::read_corrections(file.put(bytes)))
    require(!word.first.empty() && !label.empty(), "a correction without a word or a label");
}

}  // namespace fovea::fuzz
