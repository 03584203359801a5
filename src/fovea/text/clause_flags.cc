#include "fovea/text/clause_flags.h"

#include <memory>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/text/clauses.h"

namespace fovea::text {

std::vector<std::string> clause_flags() {
  std::vector<std::string> flags;
  for (int64_t level = 1; level <= kClauseLevels; ++level) flags.push_back(cat("<c", level, ">"));
  return flags;
}

bool is_clause_flag(const Vocab& vocab, int64_t id) {
  if (!vocab.surface(id).empty()) return false;
  const std::string piece = vocab.piece(id);
  return piece.size() == 4 && piece.starts_with("<c") && piece[2] >= '1' && piece[2] <= '0' + kClauseLevels &&
         piece[3] == '>';
}

void add_clause_flags(Vocab& vocab, const ClauseDictionary& dictionary, std::string_view name) {
  std::vector<int64_t> ids;
  for (const std::string& flag : clause_flags()) {
    const std::optional<int64_t> id = vocab.find(flag);
    if (!id)
      throw Error(cat(name, ": the vocabulary has no piece ", flag,
                      ", which --clause-flags needs; make it with `fovea vocab --clause-flags`"));
    ids.push_back(*id);
  }
  const auto shared = std::make_shared<const ClauseDictionary>(dictionary);
  vocab.add_pieces([shared, ids](std::string_view line) {
    std::vector<AddedPiece> flags;
    for (const SignalWord& word : signal_words(line, *shared))
      flags.push_back({word.at, ids.at(static_cast<size_t>(level_of(word.signal) - 1))});
    return flags;
  });
}

}  // namespace fovea::text
