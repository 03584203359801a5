#include "fovea/tasks/translation/term_demands.h"

#include <algorithm>
#include <string>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::translation {
namespace {

// The pieces of a text that stands behind another word.
std::vector<int64_t> pieces_inside(const text::Vocab& vocab, const std::string& text) {
  constexpr std::string_view kBefore = "a ";
  std::vector<int64_t> pieces;
  for (const text::PieceSpan& piece : vocab.encode_spans(cat(kBefore, text))) {
    if (piece.begin + 1 >= kBefore.size()) pieces.push_back(piece.id);  // the blank belongs to the piece behind it
  }
  return pieces;
}

}  // namespace

TermDemands::TermDemands(const text::Vocab& target) : target_(target) {
  std::vector<bool> continues(static_cast<size_t>(target.size()));
  for (int64_t id = 0; id < target.size(); ++id)
    continues[static_cast<size_t>(id)] = text::begins_inside_word(target.surface(id));
  continues_word_ = std::make_shared<const std::vector<bool>>(std::move(continues));
}

std::vector<search::Phrase> TermDemands::phrases_of(const text::TermList& terms, const text::Term& term) const {
  const bool ends_word = text::ends_inside_word(term.target);
  const auto has_unknown = [&](const std::vector<int64_t>& pieces) {
    return pieces.empty() || std::ranges::find(pieces, target_.unk()) != pieces.end();
  };
  std::vector<search::Phrase> phrases = {{pieces_inside(target_, term.target), false, ends_word}};
  if (has_unknown(phrases.front().tokens)) {
    throw Error(cat(terms.where(term), ": got the target '", term.target,
                    "', which has characters that the model's vocabulary lacks; expected text that the model can "
                    "write"));
  }
  for (const std::string& first : {term.target, text::with_capital(term.target)}) {
    std::vector<int64_t> pieces = target_.encode(first);
    const bool is_known = std::ranges::find(phrases, pieces, &search::Phrase::tokens) != phrases.end();
    if (!has_unknown(pieces) && !is_known) phrases.push_back({std::move(pieces), true, ends_word});
  }
  return phrases;
}

void TermDemands::require_writable(const text::TermList& terms) const {
  for (const text::Term& term : terms.terms()) phrases_of(terms, term);
}

TermDemands::Found TermDemands::find(const text::TermList& terms, std::string_view line, int64_t longest) const {
  Found found;
  std::vector<std::vector<search::Phrase>> all;
  int64_t tokens = 0;
  for (const std::vector<size_t>& alternatives : terms.find(line)) {
    std::vector<search::Phrase> phrases;
    for (const size_t t : alternatives) {
      for (search::Phrase& phrase : phrases_of(terms, terms.terms()[t])) phrases.push_back(std::move(phrase));
    }
    const text::Term& first = terms.terms()[alternatives.front()];
    int64_t shortest = longest + 1;
    for (const search::Phrase& phrase : phrases) {
      if (!phrase.only_first) shortest = std::min(shortest, std::ssize(phrase.tokens));
    }
    if (tokens + shortest > longest || all.size() == search::Demands::kMost) {
      found.missing.push_back(first);
      continue;
    }
    tokens += shortest;
    all.push_back(std::move(phrases));
    found.terms.push_back(first);
  }
  if (!all.empty()) found.demands = search::Demands(all, continues_word_);
  return found;
}

}  // namespace fovea::translation
