#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "fovea/search/demands.h"
#include "fovea/text/terms.h"
#include "fovea/text/vocab.h"

// The way from a line's terms to the demands on its translation, in the tokens of the target's vocabulary.
namespace fovea::translation {

class TermDemands {
 public:
  explicit TermDemands(const text::Vocab& target);

  // Throws an Error that names the term's place if the vocabulary cannot write its target.
  void require_writable(const text::TermList& terms) const;

  struct Found {
    search::Demands demands;
    std::vector<text::Term> terms;    // of each demand, one of its alternatives
    std::vector<text::Term> missing;  // terms for which a translation of the longest length has no room
  };
  // The demands on a translation of at most `longest` tokens. Throws like require_writable() for a term of the line.
  Found find(const text::TermList& terms, std::string_view line, int64_t longest) const;

 private:
  // The ways of saying a term: inside a text, at its beginning, and there with a capital.
  std::vector<search::Phrase> phrases_of(const text::TermList& terms, const text::Term& term) const;

  text::Vocab target_;
  std::shared_ptr<const std::vector<bool>> continues_word_;  // of each piece
};

}  // namespace fovea::translation
