#pragma once
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

// The shape of the lines of words of a sentence in columns.
class ColumnShape {
 public:
  void add(std::string_view line, std::span<const std::string> columns);

  // Whether a line that begins with # is a comment, not a word: kByForm if its columns tell, kByValue if only the
  // value in its last column does, which is unlike those of the words.
  enum class Verdict : uint8_t { kWord, kByForm, kByValue };
  Verdict verdict(std::string_view line, std::span<const std::string> columns) const;
  const std::set<std::string>& last_values() const { return values_; }

 private:
  enum class Separators : uint8_t { kNone, kBlanks, kTabs, kBoth };
  enum class Value : uint8_t { kLabel, kNumber, kPair, kLower, kOther };
  static Separators separators_of(std::string_view line);
  static Value kind_of_value(std::string_view value);
  bool is_plausible(const std::string& value) const;

  std::set<size_t> counts_;  // of columns
  std::set<Separators> separators_;
  std::set<std::string> values_;  // in the last column
  std::set<Value> kinds_;         // of values_
};

// Whether the first columns number the words of a sentence from 1, among lines of CoNLL-U for words written together
// ("1-2") and words that are not in the text ("1.1").
enum class Numbering : uint8_t { kNone, kPerhaps, kSure };
Numbering numbering_of(std::span<const std::vector<std::string>> lines);

// The number of a word; 0 for the lines of CoNLL-U that are not words, and -1 for anything else.
int64_t word_number(std::string_view column);

}  // namespace fovea::text
