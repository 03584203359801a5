#pragma once
#include <cstdint>
#include <span>
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
  // Reads lines SOURCE<TAB>TARGET; empty lines are left out. Throws an Error that names the file and the line if a line
  // has no tab, more than one, an empty side or bytes that are not UTF-8.
  static TermList load(const std::string& path);
  static TermList from_text(std::string_view text, const std::string& name);
  // Throws an Error for an empty side. `name` says where the terms come from.
  TermList(std::vector<Term> terms, const std::string& name);

  const std::vector<Term>& terms() const { return terms_; }

  // Returns the numbers in terms() of each place of the line where a source stands, in the order of the places: the
  // longest source that begins at a word, none of whose words belongs to an earlier place. A word is a run of letters,
  // digits and hyphens between them; any other visible character is a word of its own, and so is a character of a
  // script that has no blanks between words. The line's first word also counts without its capital.
  std::vector<std::vector<int64_t>> find(std::string_view line) const;

 private:
  struct Entry {
    std::vector<std::string> words;
    std::vector<int64_t> terms;
  };
  std::vector<Term> terms_;
  std::vector<Entry> entries_;  // sorted by their words
};

}  // namespace fovea::text
