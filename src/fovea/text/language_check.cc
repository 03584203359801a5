#include "fovea/text/language_check.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <unordered_map>

#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/text/clause_dictionary.h"
#include "fovea/text/code_points.h"
#include "fovea/text/function_words.h"
#include "fovea/text/unicode.h"

namespace fovea::text {
namespace {

constexpr size_t kEnglish = SIZE_MAX;
// A quotation or a foreign name has two different function words at most.
constexpr size_t kLeastDifferent = 3;
// Running text has 20% to 45% of its words in the list of its own language. English has below 2% in any of the others.
constexpr double kLeastShare = 0.1;
// Borrowed words and names give English text 1% of such letters; Polish, Czech and Vietnamese have 8% to 25%.
constexpr double kMostForeignLetters = 0.08, kLeastEnglishShare = 0.1;
constexpr int64_t kLeastLetters = 8;

// The languages of each word, as numbers of foreign_function_words(), or kEnglish.
const std::unordered_map<std::string, std::vector<size_t>>& languages_of_words() {
  static const auto kLanguages = [] {
    std::unordered_map<std::string, std::vector<size_t>> languages;
    const auto foreign = foreign_function_words();
    for (size_t i = 0; i < foreign.size(); ++i)
      for (const std::string& word : split_words(foreign[i].words)) languages[word].push_back(i);
    for (const std::string& word : split_words(english_function_words())) languages[word].push_back(kEnglish);
    return languages;
  }();
  return kLanguages;
}

std::string percent_of(int64_t part, int64_t whole) {
  return cat(fixed(100 * static_cast<double>(part) / static_cast<double>(whole), 0), "%");
}

}  // namespace

LanguageCheck::LanguageCheck() {
  for (const FunctionWords& list : foreign_function_words()) languages_.push_back({.name = list.language, .seen = {}});
}

void LanguageCheck::count_letters(std::string_view word) {
  each_character(word, [&](UChar32 c) {
    if (u_isalpha(c) == 0) return;
    ++letters_;
    foreign_letters_ += c >= 0x80 ? 1 : 0;
  });
}

void LanguageCheck::add(std::span<const std::string> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const int64_t letters = letters_;
    count_letters(words[i]);
    if (letters_ == letters) continue;  // punctuation and numbers
    ++words_;
    const std::string folded = lower_case(words[i]);
    const auto found = languages_of_words().find(folded);
    if (found == languages_of_words().end()) continue;
    const bool is_capital = folded != words[i] && i > 0;  // as in names
    for (const size_t language : found->second) {
      if (language == kEnglish) {
        ++english_;
      } else if (!is_capital) {
        ++languages_[language].hits;
        languages_[language].seen.insert(folded);
      }
    }
  }
}

std::string LanguageCheck::doubt() const {
  const auto best = std::ranges::max_element(languages_, {}, &Language::hits);
  const auto share = [&](int64_t hits) { return static_cast<double>(hits) / static_cast<double>(words_); };
  if (words_ > 0 && best->seen.size() >= kLeastDifferent && share(best->hits) >= kLeastShare &&
      best->hits > 2 * english_) {
    std::vector<std::string> some(best->seen.begin(), std::next(best->seen.begin(), kLeastDifferent));
    return cat("looks like ", best->name, ": ", percent_of(best->hits, words_), " of its words are among '",
               join(some, "', '"), "' and other function words");
  }
  const bool has_other_letters = letters_ >= kLeastLetters && static_cast<double>(foreign_letters_) >
                                                                  kMostForeignLetters * static_cast<double>(letters_);
  if (has_other_letters && share(english_) < kLeastEnglishShare)
    return cat("does not look like English: ", percent_of(foreign_letters_, letters_),
               " of its letters are not in the English alphabet");
  return {};
}

void warn_of_doubt(const LanguageCheck& check, const std::string& name, std::string_view option) {
  const std::string doubt = check.doubt();
  if (!doubt.empty())
    log::warn(cat(name, " ", doubt, "; its clauses are split by English signal words; give those of its language by ",
                  option));
}

void warn_unless_english(const std::string& path, std::string_view option) {
  if (path == "-") return;
  LanguageCheck check;
  LineReader reader(path);
  for (std::string line; check.words() < kWordsOfALanguage && reader.next(line);)
    if (is_valid_utf8(line)) check.add(words_of(ClauseDictionary::english().tokens(line), line));
  warn_of_doubt(check, input_name(path), option);
}

}  // namespace fovea::text
