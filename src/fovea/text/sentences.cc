#include "fovea/text/sentences.h"

#include <unicode/brkiter.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::text {
namespace {

// Words that end in a full stop within a sentence, folded to lower case. Words that also end sentences often ("etc.")
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

icu::UnicodeString units_of(std::string_view text) {
  return icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

std::vector<icu::UnicodeString> abbreviations_of(const std::string& language) {
  std::vector<icu::UnicodeString> words;
  for (const Abbreviations& list : kAbbreviations) {
    if (language.substr(0, language.find('-')) != list.language) continue;
    for (const std::string& word : fovea::split(list.words, '|')) words.push_back(units_of(word));
  }
  return words;
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

// The text's end is the abbreviation's.
bool ends_in_abbreviation(icu::UnicodeString text, const std::vector<icu::UnicodeString>& abbreviations) {
  const int32_t length = text.length();
  // A small letter by itself: "z." of "z. B.", "p." of "p. ex.".
  if (length >= 2 && text[length - 1] == '.' && u_islower(text[length - 2]) != 0 &&
      (length == 2 || u_isalnum(text[length - 3]) == 0))
    return true;
  text.toLower(icu::Locale::getRoot());
  for (const icu::UnicodeString& ending : abbreviations) {
    const int32_t start = text.length() - ending.length();
    if (text.endsWith(ending) && (start == 0 || u_isalnum(text.char32At(start - 1)) == 0)) return true;
  }
  return false;
}

}  // namespace

struct SentenceSplitter::Breaker {
  std::unique_ptr<icu::BreakIterator> iterator;
  std::vector<icu::UnicodeString> abbreviations;
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
  Candidate candidate(units, start);
  for (int32_t end = iterator.next(); end != icu::BreakIterator::DONE; end = iterator.next()) {
    candidate.extend(end);
    const bool last = end >= units.length();
    if (!last && (candidate.is_bare_number() || ends_in_abbreviation(candidate.ending(), breaker_->abbreviations)))
      continue;
    std::string sentence;
    units.tempSubStringBetween(start, end).toUTF8String(sentence);
    const std::string_view trimmed = trim(sentence);
    if (!trimmed.empty()) sentences.emplace_back(trimmed);
    start = end;
    candidate = Candidate(units, start);
  }
  return sentences;
}

}  // namespace fovea::text
