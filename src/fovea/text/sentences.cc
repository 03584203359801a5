#include "fovea/text/sentences.h"

#include <unicode/brkiter.h>
#include <unicode/filteredbrk.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::text {
namespace {

// Beyond those of ICU's own lists: with blanks inside, and those of manuals.
struct Abbreviations {
  std::string_view language, words;  // apart by '|'
};
constexpr Abbreviations kAbbreviations[] = {
    {"en", "e.g.|i.e.|etc.|vs.|cf.|approx.|Fig.|No.|resp.|incl.|min.|max."},
    {"de",
     "z. B.|z.B.|d. h.|d.h.|u. a.|u.a.|u. U.|o. ä.|usw.|bzw.|ca.|vgl.|ggf.|evtl.|inkl.|Nr.|Abb.|max.|min.|z. T.|s. "
     "u.|s. o."},
    {"fr", "p. ex.|p.ex.|c.-à-d.|etc.|cf.|env.|réf.|max.|min."},
    {"es", "p. ej.|p.ej.|etc.|Sr.|Sra.|aprox.|núm.|máx.|mín."},
    {"it", "ad es.|ecc.|es.|max.|min."},
    {"pt", "p. ex.|etc.|Sr.|Sra.|máx.|mín."},
    {"nl", "bijv.|enz.|d.w.z.|max.|min."},
};

icu::UnicodeString units_of(std::string_view text) {
  return icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

// A break inside "1. Open the file" or "version 7. It" would leave a bare number behind.
bool is_bare_number(const icu::UnicodeString& piece) {
  bool digits = false;
  for (int32_t i = 0; i < piece.length(); ++i) {
    const UChar32 c = piece.char32At(i);
    if (u_isalpha(c) != 0) return false;
    digits = digits || u_isdigit(c) != 0;
  }
  return digits;
}

}  // namespace

struct SentenceSplitter::Breaker {
  std::unique_ptr<icu::BreakIterator> iterator;
};

SentenceSplitter::SentenceSplitter(const std::string& language) : breaker_(std::make_unique<Breaker>()) {
  UErrorCode status = U_ZERO_ERROR;
  std::string tag = language.empty() ? "en" : language;
  std::replace(tag.begin(), tag.end(), '_', '-');
  const icu::Locale locale = icu::Locale::forLanguageTag(tag, status);
  status = U_ZERO_ERROR;
  std::unique_ptr<icu::BreakIterator> plain(icu::BreakIterator::createSentenceInstance(locale, status));
  if (U_FAILURE(status)) throw Error(cat("ICU cannot split sentences of '", language, "': ", u_errorName(status)));
  const std::unique_ptr<icu::FilteredBreakIteratorBuilder> builder(
      icu::FilteredBreakIteratorBuilder::createInstance(locale, status));
  for (const Abbreviations& list : kAbbreviations) {
    if (!language.starts_with(list.language)) continue;
    for (const std::string& word : fovea::split(list.words, '|')) builder->suppressBreakAfter(units_of(word), status);
  }
  if (U_SUCCESS(status)) breaker_->iterator.reset(builder->build(plain.release(), status));
  if (U_FAILURE(status)) throw Error(cat("ICU cannot split sentences of '", language, "': ", u_errorName(status)));
}

SentenceSplitter::~SentenceSplitter() = default;

std::vector<std::string> SentenceSplitter::split(std::string_view text) {
  const icu::UnicodeString units = units_of(text);
  icu::BreakIterator& iterator = *breaker_->iterator;
  iterator.setText(units);
  std::vector<std::string> sentences;
  int32_t start = iterator.first();
  for (int32_t end = iterator.next(); end != icu::BreakIterator::DONE; end = iterator.next()) {
    const icu::UnicodeString piece = units.tempSubStringBetween(start, end);
    if (is_bare_number(piece) && end < units.length()) continue;
    std::string sentence;
    piece.toUTF8String(sentence);
    const std::string_view trimmed = trim(sentence);
    if (!trimmed.empty()) sentences.emplace_back(trimmed);
    start = end;
  }
  return sentences;
}

}  // namespace fovea::text
