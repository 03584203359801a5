#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
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
  // Reads lines SOURCE<TAB>TARGET, with the quotes of a spreadsheet if one wrote them; empty lines are left out. Throws
  // an Error that names the file and the line if a line has no tab, more than one, an empty side or bytes that are not
  // UTF-8, and if the file has no term.
  static TermList load(const std::string& path);
  // `name` says in messages where the text, or the terms, come from.
  static TermList from_text(std::string_view text, const std::string& name);
  TermList(std::vector<Term> terms, std::string name);

  const std::vector<Term>& terms() const { return terms_; }
  std::string where(const Term& term) const;  // "terms.tsv, line 7"

  // Returns the terms of each place of the line where a source stands, as their numbers in terms(), in the order of the
  // places: those of the longest source that begins at a word and has no word of an earlier place. The first word of
  // the line also counts without its capital. A line's words are those of term_words() after normalise(),
  // and so are a source's.
  std::vector<std::vector<size_t>> find(std::string_view line) const;

 private:
  struct Entry {
    std::vector<std::string> words;
    std::vector<size_t> terms;
  };
  const Entry* longest_at(const std::vector<std::string>& words, size_t place, const std::string& first) const;
  void add(size_t term);

  std::vector<Term> terms_;
  std::string name_;
  std::map<std::string, std::vector<Entry>> entries_;  // by their first word, the longest first
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
