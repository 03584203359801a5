#include "fovea/text/sentences.h"

#include <unicode/brkiter.h>
#include <unicode/uchar.h>
#include <unicode/utf16.h>
#include <unicode/utf8.h>

#include <algorithm>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/text/sentence_stops.h"
#include "fovea/text/unicode.h"

namespace fovea::text {
namespace {

icu::UnicodeString units_of(std::string_view text) {
  return icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

// Describes the text from a sentence's start to a possible break. It is looked at piece by piece, each once: a text may
// be all abbreviations, of which none ends a sentence.
class Candidate {
 public:
  Candidate(const icu::UnicodeString& text, int32_t start)
      : text_(&text), start_(start), end_(start), ink_end_(start) {}

  void extend(int32_t end) {
    for (; end_ < end; end_ = text_->moveIndex32(end_, 1)) {
      const UChar32 c = text_->char32At(end_);
      letters_ = letters_ || u_isalpha(c) != 0;
      digits_ = digits_ || u_isdigit(c) != 0;
      if (u_isWhitespace(c) == 0) ink_end_ = text_->moveIndex32(end_, 1);
    }
  }
  // A break inside "1. Open the file" or "version 7. It" would leave a bare number behind.
  bool is_bare_number() const { return digits_ && !letters_; }
  // Longer than any abbreviation, without the blanks behind it.
  icu::UnicodeString ending() const {
    constexpr int32_t kLongest = 32;
    return text_->tempSubStringBetween(std::max(start_, ink_end_ - kLongest), ink_end_);
  }

 private:
  const icu::UnicodeString* text_;
  int32_t start_, end_, ink_end_;
  bool letters_ = false, digits_ = false;
};

// Counts the bytes of a text before its units of UTF-16, which are asked for in their order.
class ByteCounter {
 public:
  explicit ByteCounter(std::string_view text) : text_(text) {}
  size_t before(int32_t unit) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(text_.data());
    while (units_ < unit) {
      UChar32 c = 0;
      U8_NEXT_OR_FFFD(bytes, at_, text_.size(), c);
      units_ += U16_LENGTH(c);
    }
    return at_;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
  int32_t units_ = 0;
};

// The last word of a text, without the full stop behind it: the characters that are neither blanks nor brackets.
icu::UnicodeString last_word(const icu::UnicodeString& text) {
  const int32_t end = text.length() - 1;
  int32_t begin = end;
  while (begin > 0 && u_isWhitespace(text[begin - 1]) == 0 && (U_GET_GC_MASK(text[begin - 1]) & U_GC_P_MASK) == 0)
    --begin;
  return text.tempSubStringBetween(begin, end);
}

template <class Fits>
bool all_units(const icu::UnicodeString& word, const Fits& fits) {
  for (int32_t i = 0; i < word.length(); ++i)
    if (!fits(word[i])) return false;
  return !word.isEmpty();
}

// A letter by itself: "z." of "z. B.", "p." of "p. ex.", the initial of "J. S. Bach", the last of "U.S."
bool is_letter_alone(const icu::UnicodeString& word) { return word.length() == 1 && u_isalpha(word[0]) != 0; }

// "3." of "am 3. Oktober", "XIV." of "Ludwig XIV. war". Years have more digits, and end sentences.
bool is_ordinal(const icu::UnicodeString& word) {
  const auto is_roman = [](UChar c) { return icu::UnicodeString(u"IVXLC").indexOf(c) >= 0; };
  return (word.length() <= 2 && all_units(word, [](UChar c) { return u_isdigit(c) != 0; })) ||
         all_units(word, is_roman);
}

bool is_punctuation_mark(UChar32 c) { return (U_GET_GC_MASK(c) & U_GC_P_MASK) != 0; }

// Whether the word at `at`, behind any quote or bracket, is one that has a capital only where a sentence begins. A
// letter with a full stop of its own is an initial.
bool begins_sentence(const icu::UnicodeString& text, int32_t at, const Stops& stops) {
  while (at < text.length() && is_punctuation_mark(text.char32At(at))) at = text.moveIndex32(at, 1);
  int32_t end = at;
  while (end < text.length() && u_isalpha(text.char32At(end)) != 0) end = text.moveIndex32(end, 1);
  icu::UnicodeString word = text.tempSubStringBetween(at, end);
  if (word.isEmpty() || u_isupper(word.char32At(0)) == 0) return false;
  if (is_letter_alone(word) && end < text.length() && text[end] == u'.') return false;
  word.toLower(icu::Locale::getRoot());
  return std::ranges::find(stops.first_words, word) != stops.first_words.end();
}

// Whether a letter or a number that ends `text` follows a word: "Haus 3.", "Plan B.", "in the U.S.". Behind punctuation
// it counts the items of a list: "Steps: 1. Open the file".
bool follows_word(const icu::UnicodeString& text, const icu::UnicodeString& word) {
  int32_t before = text.length() - word.length() - 1;  // the full stop is one more
  const bool is_adjacent = before > 0 && u_isWhitespace(text[before - 1]) == 0;
  while (before > 0 && u_isWhitespace(text[before - 1]) != 0) --before;
  if (before == 0) return false;
  if (is_adjacent && text[before - 1] == u'.') return u_isupper(word.char32At(0)) != 0;
  return !is_punctuation_mark(text[before - 1]);
}

// Whether `text` ends with a full stop that does not end a sentence. The caller knows whether the
// rest of the text begins with a word that begins a sentence.
bool ends_within_sentence(icu::UnicodeString text, bool rest_begins_sentence, const Stops& stops) {
  if (!text.endsWith(u'.')) return false;
  const icu::UnicodeString word = last_word(text);
  const bool is_fraction = text.length() > word.length() + 1 && text[text.length() - word.length() - 2] == u',';
  if (is_letter_alone(word) || (stops.has_ordinals && !is_fraction && is_ordinal(word))) {
    if (!rest_begins_sentence || !follows_word(text, word)) return true;
  }
  text.toLower(icu::Locale::getRoot());
  for (const icu::UnicodeString& ending : stops.abbreviations) {
    const int32_t start = text.length() - ending.length();
    if (text.endsWith(ending) && (start == 0 || u_isalnum(text.char32At(start - 1)) == 0)) return true;
  }
  return false;
}

}  // namespace

struct SentenceSplitter::Breaker {
  std::unique_ptr<icu::BreakIterator> iterator;
  Stops stops;
};

SentenceSplitter::SentenceSplitter(const std::string& language) : breaker_(std::make_unique<Breaker>()) {
  UErrorCode status = U_ZERO_ERROR;
  std::string tag = language.empty() ? "en" : language;
  std::replace(tag.begin(), tag.end(), '_', '-');
  const icu::Locale locale = icu::Locale::forLanguageTag(tag, status);
  status = U_ZERO_ERROR;
  breaker_->iterator.reset(icu::BreakIterator::createSentenceInstance(locale, status));
  if (U_FAILURE(status)) throw Error(cat("ICU cannot split sentences of '", language, "': ", u_errorName(status)));
  breaker_->stops = stops_of(tag);
}

SentenceSplitter::~SentenceSplitter() = default;

std::vector<SentencePlace> SentenceSplitter::places(std::string_view text) {
  const icu::UnicodeString units = units_of(text);
  icu::BreakIterator& iterator = *breaker_->iterator;
  iterator.setText(units);
  std::vector<SentencePlace> places;
  ByteCounter bytes(text);
  size_t first = 0;
  int32_t start = iterator.first();
  Candidate candidate(units, start);
  for (int32_t end = iterator.next(); end != icu::BreakIterator::DONE; end = iterator.next()) {
    candidate.extend(end);
    const bool last = end >= units.length();
    if (!last &&
        (candidate.is_bare_number() ||
         ends_within_sentence(candidate.ending(), begins_sentence(units, end, breaker_->stops), breaker_->stops)))
      continue;
    const size_t behind = bytes.before(end);
    const std::string_view sentence = text.substr(first, behind - first);
    const size_t blanks = leading_blanks_size(sentence);
    if (blanks < sentence.size()) places.push_back({first + blanks, behind - trailing_blanks_size(sentence)});
    first = behind;
    candidate = Candidate(units, end);
  }
  return places;
}

std::vector<std::string> SentenceSplitter::split(std::string_view text) {
  std::string readable;
  if (!is_valid_utf8(text)) text = units_of(text).toUTF8String(readable);
  std::vector<std::string> sentences;
  for (const SentencePlace& place : places(text))
    sentences.emplace_back(text.substr(place.begin, place.end - place.begin));
  return sentences;
}

}  // namespace fovea::text
