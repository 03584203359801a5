#pragma once
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

// Terms: words of a source text whose translation is given.
namespace fovea::text {

struct Term {
  std::string source, target;
  int64_t line = 0;  // in its file, from 1; 0: it comes from elsewhere
};

// A list of terms that finds its sources in lines. Several terms with one source are alternatives: a translation says
// one of their targets.
class TermList {
 public:
  // Each word of a line may begin a source, and a search tries each alternative: a term is a few words, with few
  // translations.
  static constexpr size_t kMostWords = 100, kMostAlternatives = 100;

  // Reads lines SOURCE<TAB>TARGET, with the quotes of a spreadsheet if one wrote them; empty lines are left out. Throws
  // an Error that names the file and the line if a line has no tab, more than one, an empty side, bytes that are not
  // UTF-8, or more words or alternatives than the limits above, and if the file has no term.
  static TermList load(const std::string& path);
  // `name` says in messages where the text, or the terms, come from.
  static TermList from_text(std::string_view text, const std::string& name);
  TermList(std::vector<Term> terms, std::string name);

  const std::vector<Term>& terms() const { return terms_; }
  std::string where(const Term& term) const;  // "terms.tsv, line 7"
  size_t memory() const;                      // about as many bytes as the list takes

  // Returns the terms of each place of the line where a source stands, as their numbers in terms(), in the order of the
  // places: those of the longest source that begins at a word and has no word of an earlier place. The first word of
  // the line also counts without its capital. A line's words are those of term_words() after normalise(),
  // and so are a source's.
  std::vector<std::vector<size_t>> find(std::string_view line) const;

 private:
  // The nodes of a tree whose branches are words: each source is a way from node 0.
  struct Match {
    size_t words = 0, node = 0;  // no words: nothing was found
  };
  using Known = std::set<std::pair<size_t, std::string>>;  // nodes and targets
  static constexpr uint32_t kNoWord = static_cast<uint32_t>(-1);

  static uint64_t branch(size_t node, uint32_t word) { return (uint64_t{node} << 32) | word; }
  uint32_t number_of(const std::string& word) const;  // kNoWord: no source has it
  Match longest_at(const std::vector<uint32_t>& words, size_t place, uint32_t first) const;
  size_t node_of(const std::vector<std::string>& words);
  void add(size_t term, Known& known);

  std::vector<Term> terms_;
  std::string name_;
  std::unordered_map<std::string, uint32_t> words_;                              // of all sources
  std::unordered_map<uint64_t, size_t> next_;                                    // nodes, by their branches
  std::vector<std::vector<size_t>> ends_ = std::vector<std::vector<size_t>>(1);  // by node: the terms that end there
};

// The words of a text as terms see them: a run of letters, marks and digits, with single hyphens inside, is a word; any
// other visible character is a word of its own, and so is a character of a script without blanks between words.
std::vector<std::string> term_words(std::string_view text);

// The text with its first letter as a capital; the text itself if its first character has none.
std::string with_capital(std::string_view text);

// Whether a text begins with a character of term_words() that is part of a longer word, or ends with one.
bool begins_inside_word(std::string_view text);
bool ends_inside_word(std::string_view text);

}  // namespace fovea::text
