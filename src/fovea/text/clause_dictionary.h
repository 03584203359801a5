#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fovea/text/clause_context.h"

// Signal words, which split sentences into clauses (Clause Attention, section 3.2), and where a language has them.
namespace fovea::text {

// The kinds of signals, in the order of the levels: a kind splits at its level, from 1, and at those above.
enum class Signal : uint8_t { kPunctuation, kConjunction, kRelative, kPreposition, kInfinitive, kParticiple };
inline constexpr int64_t kClauseLevels = 6;
inline constexpr std::array<std::string_view, kClauseLevels> kSignalNames = {
    "punctuation", "conjunction", "relative", "preposition", "infinitive", "participle"};
// Labels of signal words, and of all other words.
inline constexpr std::array<std::string_view, kClauseLevels> kSignalLabels = {"PUNCT", "SCONJ", "PRON",
                                                                              "ADP",   "TO",    "PART"};
inline constexpr std::string_view kNoSignalLabel = "O";
inline constexpr int64_t level_of(Signal signal) { return static_cast<int64_t>(signal) + 1; }

// A token of a text: a word, or one character of punctuation or of a script without blanks; bytes [begin, end).
struct TextToken {
  size_t begin = 0, end = 0;
  bool is_word = false;
};

// The bytes of each token.
std::vector<std::string> words_of(std::span<const TextToken> tokens, std::string_view text);

// A dictionary of one language: UTF-8 lines of
//     KIND <tab> WORD... [<tab> TAG... [<tab> CONTEXT]]
// KIND is one of kSignalNames, or `closing` for punctuation that stays with the punctuation before it, or `opening` for
// punctuation that ends nothing, or `abbreviation` for words whose full stop ends nothing. Several words of the other
// kinds are a phrase, of which the first begins the clause. TAGs are the part-of-speech tags that the first word may
// have if the text has tags; an entry with the word * is of all words with these tags, and is used only then. CONTEXT
// is one of kClauseContextNames. If several entries fit, the longest counts, then the first. Lines that begin with #
// and lines without text count as nothing.
class ClauseDictionary {
 public:
  // Throws an Error of one line that names the place of what is wrong.
  static ClauseDictionary parse(std::string_view bytes, const std::string& name);
  static ClauseDictionary load(const std::string& path);
  static const ClauseDictionary& english();

  const std::string& bytes() const { return bytes_; }

  std::vector<TextToken> tokens(std::string_view text) const;

  // A token with its signal.
  enum class Role : uint8_t { kOther, kSignal, kClosing, kOpening };
  struct Tagged {
    Role role = Role::kOther;
    Signal signal = Signal::kPunctuation;
  };
  // `words` are the tokens' texts; `tags` are theirs, or empty.
  std::vector<Tagged> signals(std::span<const std::string> words, std::span<const std::string> tags) const;
  // Finds signals by labels of the words, those of kSignalLabels; other labels do not mark signals. The dictionary says
  // which punctuation is closing or opening.
  std::vector<Tagged> labelled_signals(std::span<const std::string> words, std::span<const std::string> labels) const;
  // Whether an entry is of words with this tag.
  bool knows_tag(const std::string& tag) const { return tags_.contains(tag); }
  // Entries other than punctuation, by their first words.
  size_t num_words() const { return entries_.size() - marks_.size() + by_tag_.size(); }
  bool is_abbreviation(std::string_view word) const { return abbreviations_.contains(std::string(word)); }

 private:
  struct Entry {
    std::vector<std::string> words;
    std::vector<std::string> tags;
    Role role = Role::kSignal;
    Signal signal = Signal::kPunctuation;
    ClauseContext context = ClauseContext::kAnywhere;
  };
  // The entries that begin with a word.
  struct Entries {
    std::vector<Entry> all;                                       // the longest first
    std::vector<size_t> sizes;                                    // of their phrases, in words, falling
    std::unordered_map<std::string, std::vector<size_t>> places;  // in `all`, by the phrase
    void index();
  };
  const Entry* match(std::span<const std::string> folded, std::span<const std::string> tags, size_t at) const;
  void add(std::string_view line, const std::string& place);
  void add_marks(const Entry& entry);
  void add_words(Entry entry, const std::string& place);
  bool is_mark(std::string_view character) const { return marks_.contains(std::string(character)); }

  std::string bytes_;
  std::map<std::string, Entries> entries_;  // by first word
  std::vector<Entry> by_tag_;
  std::set<std::string> tags_;                         // of all entries
  std::map<std::string, bool> marks_, abbreviations_;  // characters of punctuation; lower-case words
};

}  // namespace fovea::text
