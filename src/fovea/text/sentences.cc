#include "fovea/text/sentences.h"

#include <unicode/brkiter.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::text {
namespace {

// Words that end in a full stop within a sentence, folded to lower case. Those that also end sentences often ("etc.")
// are left out: a break too many makes the counts of the two sides differ, and the pair stays whole.
struct Abbreviations {
  std::string_view language, words;  // apart by '|'
};
constexpr Abbreviations kAbbreviations[] = {
    {"en", "e.g.|e. g.|i.e.|i. e.|vs.|cf.|approx.|fig.|resp.|incl.|mr.|mrs.|ms.|dr.|prof.|st.|viz.|ca."},
    {"de",
     "z.b.|z. b.|d.h.|d. h.|u.a.|u. a.|u.u.|u. u.|o.ä.|o. ä.|z.t.|z. t.|s.u.|s. u.|s.o.|s. o.|i.d.r.|i. d. r.|"
     "bzw.|ca.|vgl.|ggf.|evtl.|inkl.|nr.|abb.|max.|min.|dr.|prof.|hr.|fr.|sog.|bspw.|engl."},
    {"fr", "p.ex.|p. ex.|ex.|c.-à-d.|cf.|env.|réf.|fig.|m.|mme.|dr."},
    {"es", "p.ej.|p. ej.|ej.|sr.|sra.|dr.|aprox.|núm.|máx.|mín.|fig."},
    {"it", "ad es.|p.es.|p. es.|es.|sig.|dott.|fig.|max.|min."},
    {"pt", "p.ex.|p. ex.|ex.|sr.|sra.|dr.|máx.|mín.|fig."},
    {"nl", "bijv.|d.w.z.|o.a.|m.a.w.|dhr.|mevr.|nr.|max.|min."},
    {"sv", "t.ex.|t. ex.|bl.a.|bl. a.|d.v.s.|ca."},
    {"da", "f.eks.|f. eks.|bl.a.|dvs.|ca."},
    {"nb", "f.eks.|f. eks.|bl.a.|dvs.|ca."},
    {"pl", "np.|m.in.|tzn.|tj.|ok."},
    {"cs", "např.|tzn.|tj.|č."},
    {"sk", "napr.|tzn.|tj.|č."},
    {"hu", "pl.|ill.|kb."},
    {"ru", "т.е.|т. е.|т.д.|т. д.|т.п.|т. п.|напр.|см.|рис."},
    {"uk", "т.д.|т. д.|т.п.|т. п.|напр.|див.|рис."},
};

std::vector<std::string> abbreviations_of(const std::string& language) {
  for (const Abbreviations& list : kAbbreviations)
    if (language.substr(0, language.find('-')) == list.language) return fovea::split(list.words, '|');
  return {};
}

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

bool ends_in_abbreviation(const icu::UnicodeString& piece, const std::vector<std::string>& abbreviations) {
  icu::UnicodeString text = piece;
  text.trim();
  const int32_t length = text.length();
  // A small letter by itself: "z." of "z. B.", "p." of "p. ex.".
  if (length >= 2 && text[length - 1] == '.' && u_islower(text[length - 2]) != 0 &&
      (length == 2 || u_isalnum(text[length - 3]) == 0))
    return true;
  text.toLower(icu::Locale::getRoot());
  for (const std::string& abbreviation : abbreviations) {
    const icu::UnicodeString ending = units_of(abbreviation);
    const int32_t start = text.length() - ending.length();
    if (text.endsWith(ending) && (start == 0 || u_isalnum(text.char32At(start - 1)) == 0)) return true;
  }
  return false;
}

}  // namespace

struct SentenceSplitter::Breaker {
  std::unique_ptr<icu::BreakIterator> iterator;
  std::vector<std::string> abbreviations;
};

SentenceSplitter::SentenceSplitter(const std::string& language) : breaker_(std::make_unique<Breaker>()) {
  UErrorCode status = U_ZERO_ERROR;
  std::string tag = language.empty() ? "en" : language;
  std::replace(tag.begin(), tag.end(), '_', '-');
  const icu::Locale locale = icu::Locale::forLanguageTag(tag, status);
  status = U_ZERO_ERROR;
  breaker_->iterator.reset(icu::BreakIterator::createSentenceInstance(locale, status));
  if (U_FAILURE(status)) throw Error(cat("ICU cannot split sentences of '", language, "': ", u_errorName(status)));
  breaker_->abbreviations = abbreviations_of(tag);
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
    const bool last = end >= units.length();
    if (!last && (is_bare_number(piece) || ends_in_abbreviation(piece, breaker_->abbreviations))) continue;
    std::string sentence;
    piece.toUTF8String(sentence);
    const std::string_view trimmed = trim(sentence);
    if (!trimmed.empty()) sentences.emplace_back(trimmed);
    start = end;
  }
  return sentences;
}

}  // namespace fovea::text
