#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fovea::text {

// The place that a word must have to be a signal of its entry's kind. Penn Treebank tags do not tell subordinating
// conjunctions from prepositions (IN), nor the infinitive's "to" from the preposition (TO), so the words around it
// decide. All but kAnywhere need part-of-speech tags; without tags, such an entry is not used.
enum class ClauseContext : uint8_t {
  kAnywhere,
  kTagged,       // anywhere in a text with tags
  kClause,       // a subject and a finite verb follow before the next punctuation
  kPauseClause,  // the same, behind punctuation: "..., for he was late"
  kAdverbial,    // not behind a word that it refers to ("the day when", "asked when"), and not in a question
  kInfinitive,   // a verb in its base form follows, perhaps behind adverbs, or no word does
  kModifier,  // not behind a form of "be" or "have" with perhaps adverbs between, which make it part of the predicate
};
// The names in a dictionary, in the order of the values.
inline constexpr std::array<std::string_view, 7> kClauseContextNames = {
    "anywhere", "tagged", "clause", "pause-clause", "adverbial", "infinitive", "modifier"};

// A sentence in lower case and its part-of-speech tags, as many or none; the word or phrase has the words [begin, end).
struct ClausePlace {
  std::span<const std::string> words, tags;
  size_t begin = 0, end = 0;
};

// Returns whether the word or phrase stands in such a context.
bool stands_in(ClauseContext context, const ClausePlace& place);

}  // namespace fovea::text
