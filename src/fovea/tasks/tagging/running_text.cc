#include "fovea/tasks/tagging/running_text.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "fovea/base/strings.h"
#include "fovea/text/utf8.h"
#include "fovea/text/wordpiece.h"

namespace fovea::tagging {
namespace {

using text::ColumnLine;

std::string_view first_of(std::string_view text) { return text.substr(0, first_character(text).size); }

std::string_view last_of(std::string_view text) {
  size_t last = text.size() - 1;
  while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xc0) == 0x80) --last;
  return text.substr(last);
}

// Punctuation of the scripts without blanks, such as an ideographic comma: it has words on both sides.
bool is_wide_mark(std::string_view character) { return character >= "\u3000" && text::is_punctuation(character); }

// The characters of a word that has no white space: characters that stand alone, and the stretches between them.
std::vector<std::string_view> stretches(std::string_view text) {
  std::vector<std::string_view> parts;
  bool continues = false;
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = first_of(text.substr(at));
    const bool is_blank = text::white_space_size(text.substr(at)) > 0,
               is_alone = text::stands_alone(character) || is_wide_mark(character);
    if (is_alone || (!is_blank && !continues))
      parts.push_back(text.substr(at, character.size()));
    else if (!is_blank)
      parts.back() = {parts.back().data(), parts.back().size() + character.size()};
    continues = !is_alone && !is_blank;
    at += character.size();
  }
  return parts;
}

// Adds a stretch as words, with the punctuation at its ends apart.
void split_marks(std::string_view word, std::vector<std::string>& words) {
  for (std::string_view mark = first_of(word); mark.size() < word.size() && text::is_punctuation(mark);
       mark = first_of(word)) {
    words.emplace_back(mark);
    word.remove_prefix(mark.size());
  }
  std::vector<std::string> behind;
  for (std::string_view mark = last_of(word); mark.size() < word.size() && text::is_punctuation(mark);
       mark = last_of(word)) {
    const std::string_view rest = word.substr(0, word.size() - mark.size());
    const bool is_abbreviation =
        mark == "." && rest.find('.') != std::string_view::npos && word.find("..") == std::string_view::npos;
    if (is_abbreviation) break;
    behind.emplace_back(mark);
    word = rest;
  }
  words.emplace_back(word);
  words.insert(words.end(), behind.rbegin(), behind.rend());
}

// A word as it stands in a sentence: its letters except the first are small, and punctuation may follow.
bool is_ordinary_word(std::string_view word) {
  while (word.size() > 1 && text::is_punctuation(last_of(word))) word.remove_suffix(last_of(word).size());
  const auto is_small = [](char c) {
    return (c >= 'a' && c <= 'z') || c == '\'' || static_cast<unsigned char>(c) >= 0x80;
  };
  return std::ranges::all_of(word.substr(1), is_small) &&
         (is_small(word[0]) || (word.size() > 1 && word[0] >= 'A' && word[0] <= 'Z'));
}

bool ends_sentence(std::string_view text) {
  static constexpr std::string_view kMarks[] = {".",      "!",      "?",      "\u2026", "\u3002",
                                                "\uff01", "\uff1f", "\u061f", "\u0964"};
  return std::ranges::find(kMarks, last_of(text)) != std::end(kMarks);
}

// Words between blanks, most of them as in sentences, or a line of a script without blanks that ends as sentences do.
bool is_like_sentence(const ColumnLine& line) {
  if (line.text.find('\t') != std::string::npos) return false;
  if (line.columns.size() == 1) {
    const std::vector<std::string> words = words_of_text(line.text);
    return words.size() > 2 && ends_sentence(line.text) && text::stands_alone(words.front());
  }
  const auto behind = std::span(line.columns).subspan(1);
  const auto ordinary = static_cast<size_t>(std::ranges::count_if(behind, is_ordinary_word));
  return ordinary >= 2 && 2 * ordinary >= behind.size();
}

}  // namespace

std::vector<std::string> words_of_text(std::string_view line) {
  std::vector<std::string> words;
  for (const std::string_view stretch : stretches(line)) split_marks(stretch, words);
  return words;
}

bool runs_words_together(std::string_view word) {
  constexpr int kLongWord = 20;  // letters
  int letters = 0;
  for (size_t at = 0; at < word.size();) {
    const std::string_view character = first_of(word.substr(at));
    // Thai and Lao, Tibetan, Burmese, and Khmer.
    const auto between = [&](std::string_view first, std::string_view last) {
      return character >= first && character <= last;
    };
    if (between("\u0e00", "\u0fff") || between("\u1000", "\u109f") || between("\u1780", "\u17ff")) ++letters;
    at += character.size();
  }
  return letters > kLongWord;
}

const ColumnLine* running_text(std::span<const ColumnLine> lines) {
  const ColumnLine* first = nullptr;
  size_t words = 0, sentences = 0, ends = 0;
  std::set<size_t> lengths;
  for (const ColumnLine& line : lines) {
    if (line.kind != ColumnLine::Kind::kWord) continue;
    ++words;
    if (!is_like_sentence(line)) continue;
    ++sentences;
    if (first == nullptr) first = &line;
    lengths.insert(line.columns.size());
    ends += ends_sentence(line.text) ? 1 : 0;
  }
  // Columns are the same in all lines, and do not end as sentences do.
  const bool varies = lengths.size() > 1 || sentences == 1 || 2 * ends > sentences;
  return varies && sentences * 5 >= words * 4 ? first : nullptr;
}

}  // namespace fovea::tagging
