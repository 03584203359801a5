#pragma once
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

// Tells a text that is not English from English of any register. A text of names, numbers or single words has few of
// English's function words too, so only evidence for another language counts: its function words, or letters that
// English does not have.
class LanguageCheck {
 public:
  LanguageCheck();
  // Adds the words of one sentence.
  void add(std::span<const std::string> words);
  int64_t words() const { return words_; }
  // Why the words so far are not English, such as "looks like German: 42% of its words are among 'der', 'die', 'und'";
  // empty if nothing speaks against it.
  std::string doubt() const;

 private:
  struct Language {
    std::string_view name;
    int64_t hits = 0;
    std::set<std::string, std::less<>> seen;  // different words
  };
  void count_letters(std::string_view word);

  std::vector<Language> languages_;
  int64_t words_ = 0, english_ = 0, letters_ = 0, foreign_letters_ = 0;
};

// The words after which a text's language is settled.
inline constexpr int64_t kWordsOfALanguage = 2000;

// Warns if the words of a text, `name` in messages, are not English, though its clauses are split by English signal
// words; `option` gives others.
void warn_of_doubt(const LanguageCheck& check, const std::string& name, std::string_view option);

// Warns like warn_of_doubt(), by the beginning of a file. Nothing is read from standard input.
void warn_unless_english(const std::string& path, std::string_view option);

}  // namespace fovea::text
