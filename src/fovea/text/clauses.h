#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/text/clause_dictionary.h"
#include "fovea/text/vocab.h"

// Clauses of a sentence in levels: those of level l begin at the signals of level l and below. A signal word begins its
// clause; punctuation ends one, together with the punctuation behind it.
namespace fovea::text {

// A signal word of a text, which begins with the byte `at`.
struct SignalWord {
  size_t at = 0;
  Signal signal = Signal::kPunctuation;
};
std::vector<SignalWord> signal_words(std::string_view text, const ClauseDictionary& dictionary);

// A clause begins before the byte `at` in all levels from `level` on. Positions rise, and none is 0.
struct ClauseStart {
  size_t at = 0;
  int64_t level = 1;
  bool operator==(const ClauseStart&) const = default;
};

// The starts between the tokens of a text, except for the first clause's; `at` counts tokens.
std::vector<ClauseStart> clause_starts(std::span<const ClauseDictionary::Tagged> signals);

// The starts within a text, except for the first clause's.
std::vector<ClauseStart> clause_starts(std::string_view text, const ClauseDictionary& dictionary);

// Like clause_starts() above, for words with part-of-speech tags; `tags` may be empty. `at` counts words.
std::vector<ClauseStart> clause_starts(std::span<const std::string> words, std::span<const std::string> tags,
                                       const ClauseDictionary& dictionary);

// The clauses of a level, which joined are the text; none of an empty text.
std::vector<std::string> clauses(std::string_view text, std::span<const ClauseStart> starts, int64_t level);

// The text of a sentence's pieces, and where each piece ends in it.
struct PieceText {
  std::string text;
  std::vector<size_t> ends;
};
PieceText text_of(const Vocab& vocab, std::span<const int64_t> pieces);

// For each piece of a sentence, the level from which on a clause begins with it; 0: in none. `text` is that of the
// pieces and `starts` are its clauses'. The first piece begins one in all levels. A piece belongs to the clause in
// which its text begins; pieces without text, </s> among them, to the clause before them, but a flag (clause_flags.h)
// to that of the piece behind it.
std::vector<uint8_t> clause_levels(const Vocab& vocab, std::span<const int64_t> pieces, const PieceText& text,
                                   std::span<const ClauseStart> starts);

// Like clause_levels() above, with starts from the signal words of a dictionary.
std::vector<uint8_t> clause_levels(const Vocab& vocab, const ClauseDictionary& dictionary,
                                   std::span<const int64_t> pieces);

}  // namespace fovea::text
