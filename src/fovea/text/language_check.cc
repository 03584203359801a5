#include "fovea/text/language_check.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <unordered_map>

#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/text/clause_dictionary.h"
#include "fovea/text/code_points.h"
#include "fovea/text/unicode.h"

namespace fovea::text {
namespace {

// The most frequent function words of a language, in lower case, apart by blanks.
struct FunctionWords {
  std::string_view language, words;
};

constexpr std::array kForeign = {
    FunctionWords{
        "German",
        "der die das und ist nicht ein eine einen einer dem den des zu mit von auf für sich es er sie ich wir im als "
        "auch aus bei nach dass wie wenn aber oder nur sind wird hat haben war werden zum zur um noch vor"},
    FunctionWords{"Dutch",
                  "de het een van en dat niet te zijn op voor met aan er om ook als naar dan maar bij uit wordt die "
                  "deze heeft hij zij ze ik je dit wat nog werd door kan zich hebben"},
    FunctionWords{"Afrikaans", "die het en van nie wat om te sy hulle vir op met dat aan hy ek ons deur sal ook"},
    FunctionWords{"Danish",
                  "og det er en til på som af den med ikke der de et har jeg var han vi kan fra om eller blev også "
                  "efter når hun sig men"},
    FunctionWords{"Norwegian",
                  "og det er en til på som av den med ikke de et har jeg var han vi kan fra om eller ble også etter "
                  "når hun seg men"},
    FunctionWords{"Swedish",
                  "och det är en till på som av den med inte de ett har jag var han vi kan från om eller blev också "
                  "efter när hon sig men att för"},
    FunctionWords{"Icelandic", "og að er sem það ekki til með en við um hann af fyrir ég var hún þá eru frá eða"},
    FunctionWords{
        "French",
        "le la les et des un une du que est dans pour qui il elle ne pas au aux par sur ce se avec sont plus nous vous "
        "je mais ou où cette ces son sa ses leur être été comme si c'est d'un d'une qu'il l'on en de"},
    FunctionWords{"Spanish",
                  "de la el que y en los las un una se del por con su para es al lo como más pero sus le ya este sí "
                  "porque esta entre cuando muy sin sobre también hasta hay donde son"},
    FunctionWords{"Portuguese",
                  "de que não um uma os da em para com se na por mais dos das ao ele ela como mas foi são está seu sua "
                  "ou ser quando muito nos já eu também pelo pela até"},
    FunctionWords{"Italian",
                  "di che il la un una per non sono è del della dei delle le gli si con da più ma come anche lo nel "
                  "nella al alla questo questa ha ed cui dal se dove quando"},
    FunctionWords{"Catalan", "de la el que els les un una en per amb és del al dels com més però aquest són ha seva"},
    FunctionWords{
        "Romanian",
        "de la și în nu un o care cu pe din mai este că pentru sunt se dar ce ca au fost prin după sau lui ei"},
    FunctionWords{"Latin", "et non est ad cum quod ut sed ex per atque enim si quam qui quae sunt ab aut esse"},
    FunctionWords{"Polish", "w nie na się z że jest jak co po ale tak za od jego przez był są dla czy już tylko"},
    FunctionWords{"Czech", "se v na je že s z o k jako si pro ale tak jsou byl jeho po od podle které"},
    FunctionWords{"Slovak", "sa v na je že s z o k ako si pre ale tak sú bol jeho po od podľa ktoré"},
    FunctionWords{"Croatian", "je se na da za su od s o kao što nije bi koji iz ali po će biti koja te ili"},
    FunctionWords{"Slovenian", "je se na da za od s ki kot ni bi pa po tudi iz ali pri kako kar še lahko"},
    FunctionWords{"Lithuanian", "ir yra kad į iš su bet ar kaip apie tai jo už po buvo nuo dėl taip jis"},
    FunctionWords{"Latvian", "un ir ka par uz ar bet kas vai kā tas viņš bija ne pie pēc arī"},
    FunctionWords{"Estonian", "ja ei et see kui ta oli ning oma ka mis aga siis nii ega või kuid kes"},
    FunctionWords{"Finnish", "ja ei että se hän oli ovat mutta kun joka myös niin tai sen ole mitä kuin hänen vain"},
    FunctionWords{"Hungarian", "az és hogy nem egy van volt meg de ez csak már még azt mint vagy ha ki el fel"},
    FunctionWords{"Turkish", "ve bir bu da de için ile çok daha olarak gibi ne var olan o kadar sonra ama değil en"},
    FunctionWords{"Indonesian or Malay",
                  "yang dan di dengan untuk ini itu dari dalam tidak akan pada ke ada oleh juga saya telah atau mereka "
                  "adalah bisa karena dia kami sudah boleh orang"},
    FunctionWords{"Tagalog", "ang ng sa na mga ay si ko hindi ito para siya ni kung nang mo niya may kay"},
    FunctionWords{"Swahili", "ya na wa kwa ni katika la za kuwa cha hii huo yake wao lakini kama hiyo kutoka pia"},
    FunctionWords{"Vietnamese", "và của là có không cho được trong một các với này đã những người khi để từ như đến"},
    FunctionWords{"Welsh", "yn yr ar mae ei gan hyn ac am bod wedi oedd fod mewn eu gyda hefyd ond"},
    FunctionWords{"Irish", "agus na ar go le ag bhí tá sé sin ach mar níl bhfuil leis chun"},
    FunctionWords{"Basque", "eta da ez du bat dira zen izan ere egin baina dute hau zuen dago"},
    FunctionWords{"Albanian", "dhe në të një është për që nuk së nga si ka janë ai por"},
    FunctionWords{"Esperanto", "la kaj de estas ne en mi li al ke vi por ĝi pri sed kun tiu estis"},
};

// English, and other languages that are written in Latin letters. A word that is frequent in English stands in no other
// list.
std::string_view english_function_words() {
  return "the of and to a in is it that was for on he she you i we they with as at be by his her this not are have had "
         "from or but my your our its their there what which who will would can could if so when all no do did been "
         "has were one said out up about into them him me than then some more an how now just like only also u ur";
}

std::span<const FunctionWords> foreign_function_words() { return kForeign; }

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
