#include "fovea/text/sentences.h"

#include <unicode/brkiter.h>
#include <unicode/uchar.h>
#include <unicode/utf16.h>
#include <unicode/utf8.h>

#include <algorithm>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/text/unicode.h"

namespace fovea::text {
// The full stops within sentences that a language has.
struct Stops {
  std::vector<icu::UnicodeString> abbreviations;
  bool has_ordinals = false;
};

namespace {

// Words that end in a full stop within a sentence, folded to lower case. Words that also end sentences often ("etc.")
// are left out: a break too many makes the counts of the two sides differ, and the pair stays whole. ICU has such lists
// too (the keyword ss), which also have words such as "all." and "go.". Initials and letters apart by dots need no
// list.
struct Abbreviations {
  std::string_view language, words;  // apart by '|'
  bool has_ordinals = false;         // 3. is "third"
};
constexpr Abbreviations kAbbreviations[] = {
    {"en",
     "e.g.|e. g.|i.e.|i. e.|vs.|cf.|approx.|fig.|figs.|resp.|incl.|mr.|mrs.|ms.|mx.|dr.|drs.|prof.|st.|viz.|ca.|"
     "gen.|col.|maj.|capt.|cpt.|lt.|sgt.|cpl.|adm.|cmdr.|brig.|hon.|rev.|fr.|gov.|sen.|rep.|pres.|messrs.|jan.|feb.|"
     "apr.|aug.|sept.|oct.|nov.|dec.|mt.|vol.|vols.|pp.|eds.|univ."},
    {"de",
     "z.b.|z. b.|d.h.|d. h.|u.a.|u. a.|u.u.|u. u.|o.ä.|o. ä.|z.t.|z. t.|s.u.|s. u.|s.o.|s. o.|i.d.r.|i. d. r.|"
     "bzw.|ca.|vgl.|ggf.|evtl.|inkl.|nr.|abb.|max.|min.|dr.|prof.|hr.|hrn.|fr.|frl.|sog.|bspw.|engl.|st.|dipl.|ing.|"
     "mag.|gen.|hptm.|oblt.|ltn.|maj.|obst.|kap.|bd.|hrsg.|geb.|gest.|gegr.|ehem.|jan.|feb.|febr.|aug.|sept.|okt.|nov.|"
     "dez.|mio.|mrd.|tel.|zzgl.|exkl.|lat.|frz.|ital.|griech.|russ.|amerik.|rd.|zw.",
     true},
    {"fr",
     "p.ex.|p. ex.|ex.|c.-à-d.|cf.|env.|réf.|fig.|m.|mm.|mme.|mlle.|mgr.|me.|dr.|pr.|st.|ste.|gén.|col.|cap.|lt.|"
     "janv.|févr.|avr.|juil.|sept.|oct.|nov.|déc.|av.|chap.|vol."},
    {"es",
     "p.ej.|p. ej.|ej.|sr.|sra.|srta.|sres.|d.|dña.|dr.|dra.|prof.|lic.|ing.|gral.|cnel.|cap.|tte.|sgto.|mons.|aprox.|"
     "núm.|máx.|mín.|fig.|pág.|págs.|vol.|cap.|av.|avda.|ene.|abr.|ago.|sept.|oct.|nov.|dic."},
    {"it",
     "ad es.|p.es.|p. es.|es.|sig.|sigg.|sig.ra.|dott.|dott.ssa.|prof.|prof.ssa.|ing.|avv.|arch.|on.|gen.|col.|cap.|"
     "ten.|mons.|fig.|max.|min.|pag.|pagg.|vol.|cfr.|genn.|febbr.|ott.|nov.|dic.|sett."},
    {"pt",
     "p.ex.|p. ex.|ex.|sr.|sra.|srta.|dr.|dra.|prof.|profa.|eng.|gen.|cel.|cap.|ten.|sgt.|máx.|mín.|fig.|pág.|vol.|"
     "av.|fev.|abr.|ago.|set.|out.|nov.|dez."},
    {"nl",
     "bijv.|d.w.z.|o.a.|m.a.w.|dhr.|mevr.|mej.|dr.|drs.|prof.|ir.|ing.|mr.|ds.|st.|gen.|kol.|kap.|lt.|nr.|max.|min.|"
     "blz.|vgl.|incl.|excl.|ca.|jan.|feb.|apr.|aug.|sept.|okt.|nov.|dec."},
    {"sv", "t.ex.|t. ex.|bl.a.|bl. a.|d.v.s.|ca.|dr.|prof.|st.|gen.|jan.|feb.|aug.|sept.|okt.|nov.|dec.|resp.|s.k."},
    {"da", "f.eks.|f. eks.|bl.a.|dvs.|ca.|dr.|prof.|hr.|fr.|frk.|gen.|sct.|jan.|feb.|aug.|sept.|okt.|nov.|dec.|nr.",
     true},
    {"nb", "f.eks.|f. eks.|bl.a.|dvs.|ca.|dr.|prof.|hr.|fr.|frk.|gen.|st.|jan.|feb.|aug.|sept.|okt.|nov.|des.|nr.",
     true},
    {"nn", "t.d.|bl.a.|dvs.|ca.|dr.|prof.|hr.|fr.|gen.|st.|jan.|feb.|aug.|sept.|okt.|nov.|des.|nr.", true},
    {"no", "f.eks.|f. eks.|bl.a.|dvs.|ca.|dr.|prof.|hr.|fr.|frk.|gen.|st.|jan.|feb.|aug.|sept.|okt.|nov.|des.|nr.",
     true},
    {"fi", "esim.|mm.|ts.|ks.|tri.|prof.|kenr.|ev.|maist.|n.|s.|ent.", true},
    {"is", "t.d.|dr.|prof.|hr.|sr.|nr.|jan.|feb.|ágú.|sept.|okt.|nóv.|des.", true},
    {"et", "nt.|s.o.|dr.|prof.|hr.|pr.|kol.|kin.|lk.|nr.|jaan.|veebr.|aug.|sept.|okt.|nov.|dets.", true},
    {"lv", "piem.|t.i.|dr.|prof.|ģen.|plkv.|nr.|jūl.|janv.|febr.|apr.|aug.|sept.|okt.|nov.|dec.", true},
    {"lt", "pvz.|t. y.|t.y.|dr.|prof.|gen.|plk.|nr.|p.|ponas.", true},
    {"lb", "z.b.|d.h.|dr.|prof.|nr.", true},
    {"pl",
     "np.|m.in.|tzn.|tj.|ok.|dr.|prof.|mgr.|inż.|hab.|gen.|płk.|ppłk.|mjr.|kpt.|por.|św.|ks.|o.|nr.|ul.|al.|im.|tzw."
     "|tys.|mln.|mld.",
     true},
    {"cs",
     "např.|tzn.|tj.|č.|mudr.|judr.|rndr.|phdr.|paeddr.|thdr.|ing.|mgr.|bc.|doc.|prof.|dr.|gen.|plk.|kpt.|por.|sv.|"
     "tzv.|str.|obr.|ul.|nám.|resp.|popř.",
     true},
    {"sk",
     "napr.|tzn.|tj.|č.|mudr.|judr.|rndr.|phdr.|paeddr.|thdr.|ing.|mgr.|bc.|doc.|prof.|dr.|gen.|plk.|kpt.|por.|sv.|"
     "tzv.|str.|obr.|ul.|nám.|resp.|príp.",
     true},
    {"sl", "npr.|tj.|t.i.|t. i.|dr.|prof.|mag.|ing.|g.|ga.|gen.|sv.|št.|str.|oz.|ipd.", true},
    {"hr", "npr.|tj.|tzv.|dr.|prof.|mr.|ing.|g.|gđa.|gen.|sv.|br.|str.|sl.", true},
    {"bs", "npr.|tj.|tzv.|dr.|prof.|mr.|ing.|g.|gđa.|gen.|sv.|br.|str.|sl.", true},
    {"sr", "npr.|tj.|tzv.|dr.|prof.|mr.|gen.|sv.|br.|str.|нпр.|тј.|тзв.|др.|проф.|ген.|св.|бр.|стр.", true},
    {"mk", "на пр.|т.е.|т.н.|д-р.|проф.|ген.|св.|бр.|стр."},
    {"hu",
     "pl.|ill.|kb.|dr.|prof.|id.|ifj.|özv.|gen.|szt.|u.|ún.|okl.|tbk.|jan.|febr.|márc.|ápr.|jún.|júl.|aug.|szept.|"
     "okt.|nov.|dec.",
     true},
    {"tr", "örn.|bkz.|dr.|prof.|doç.|yrd.|av.|sn.|gen.|alb.|yzb.|no.|vb.|cad.|sok.|mah.", true},
    {"ro", "ex.|dl.|dna.|dr.|prof.|ing.|gen.|col.|cpt.|lt.|sf.|nr.|str.|fig.|pag.|cca."},
    {"ca", "p. ex.|p.ex.|sr.|sra.|dr.|dra.|prof.|gral.|núm.|pàg.|fig.|aprox.|av."},
    {"el", "π.χ.|π. χ.|δηλ.|κ.|κκ.|κα.|δρ.|καθ.|στρ.|αρ.|σελ.|βλ.|αγ."},
    {"ru",
     "т.е.|т. е.|т.д.|т. д.|т.п.|т. п.|т.к.|т. к.|напр.|см.|рис.|г.|гг.|г-н.|г-жа.|проф.|акад.|доц.|инж.|ген.|"
     "полк.|подполк.|кап.|лейт.|св.|им.|ул.|д.|стр.|тыс.|млн.|млрд.|янв.|февр.|апр.|авг.|сент.|окт.|нояб.|дек."},
    {"uk",
     "т.д.|т. д.|т.п.|т. п.|т.зв.|напр.|див.|рис.|м.|р.|рр.|проф.|акад.|доц.|інж.|ген.|полк.|св.|ім.|вул.|стор.|тис.|"
     "млн.|млрд.|січ.|лют.|берез.|квіт.|трав.|черв.|лип.|серп.|верес.|жовт.|листоп.|груд."},
    {"be", "напр.|гл.|мал.|праф.|акад.|ген.|св.|імя.|вул.|стар.|тыс.|млн."},
    {"bg",
     "напр.|вж.|фиг.|г.|гр.|г-н.|г-жа.|д-р.|проф.|акад.|доц.|инж.|ген.|полк.|кап.|св.|ул.|бул.|стр.|бр.|хил.|млн."},
};

icu::UnicodeString units_of(std::string_view text) {
  return icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

Stops stops_of(const std::string& language) {
  Stops stops;
  for (const Abbreviations& list : kAbbreviations) {
    if (lower(language.substr(0, language.find('-'))) != list.language) continue;
    for (const std::string& word : fovea::split(list.words, '|')) stops.abbreviations.push_back(units_of(word));
    stops.has_ordinals = list.has_ordinals;
  }
  return stops;
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

// Whether the text ends with a full stop that does not end a sentence.
bool ends_within_sentence(icu::UnicodeString text, const Stops& stops) {
  if (!text.endsWith(u'.')) return false;
  const icu::UnicodeString word = last_word(text);
  const bool is_fraction = text.length() > word.length() + 1 && text[text.length() - word.length() - 2] == u',';
  if (is_letter_alone(word) || (stops.has_ordinals && !is_fraction && is_ordinal(word))) return true;
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
    if (!last && (candidate.is_bare_number() || ends_within_sentence(candidate.ending(), breaker_->stops))) continue;
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
