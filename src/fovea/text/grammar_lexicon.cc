#include "fovea/text/grammar_lexicon.h"

#include <set>
#include <string_view>

#include "fovea/base/rng.h"

namespace fovea::text {
namespace {

using Sounds = std::vector<std::string_view>;

// New words of two or three syllables of a language's sounds, no two alike.
class Coiner {
 public:
  Coiner(Sounds onsets, Sounds rhymes, uint64_t stream)
      : onsets_(std::move(onsets)), rhymes_(std::move(rhymes)), rng_(20240229, stream) {}
  std::string coin(uint64_t syllables) {
    for (;;) {
      std::string word;
      for (uint64_t i = 0; i < syllables; ++i) {
        word += onsets_[rng_.below(onsets_.size())];
        word += rhymes_[rng_.below(rhymes_.size())];
      }
      if (used_.insert(word).second) return word;
    }
  }
  uint64_t below(uint64_t bound) { return rng_.below(bound); }

 private:
  Sounds onsets_, rhymes_;
  Rng rng_;
  std::set<std::string> used_;
};

std::string capitalised(std::string word) {
  word[0] = static_cast<char>(word[0] - 'a' + 'A');
  return word;
}

Lexicon make_lexicon() {
  Coiner source({"b", "d", "f", "l", "m", "n", "p", "r", "s", "t", "st", "k"},
                {"a", "e", "i", "o", "u", "an", "el", "or"}, 1);
  Coiner target({"g", "h", "j", "kr", "v", "w", "z", "sch", "br", "ch", "pf", "tr"},
                {"a", "ä", "ei", "o", "ö", "ü", "ung", "arm"}, 2);
  const auto entries = [&](size_t count, uint64_t syllables) {
    std::vector<Entry> list(count);
    for (Entry& entry : list)
      entry = {.source = source.coin(syllables), .target = target.coin(syllables), .noun_class = target.below(3)};
    return list;
  };
  Lexicon words{.nouns = entries(300, 2),
                .names = entries(60, 2),
                .verbs = entries(150, 2),
                .adjectives = entries(100, 2),
                .adverbs = entries(40, 2),
                .prepositions = entries(12, 1)};
  for (Entry& name : words.names) {
    name.source = capitalised(name.source);
    name.target = name.source;  // names stay as they are
  }
  return words;
}

size_t index_of(Number number) { return static_cast<size_t>(number); }

}  // namespace

const Lexicon& lexicon() {
  static const Lexicon kLexicon = make_lexicon();
  return kLexicon;
}

std::string source_article(bool definite) { return definite ? "ke" : "un"; }

std::string target_article(bool definite, size_t noun_class, Number number) {
  static constexpr const char* kDefinite[3][2] = {{"dro", "dri"}, {"dra", "dri"}, {"drum", "dru"}};
  static constexpr const char* kIndefinite[3][2] = {{"eno", "eni"}, {"ena", "eni"}, {"enum", "enu"}};
  return definite ? kDefinite[noun_class][index_of(number)] : kIndefinite[noun_class][index_of(number)];
}

std::string source_noun(const Entry& noun, Number number) {
  return number == Number::kPlural ? noun.source + "s" : noun.source;
}

std::string target_noun(const Entry& noun, Number number) {
  static constexpr const char* kPlural[3] = {"en", "er", "e"};
  return number == Number::kPlural ? noun.target + kPlural[noun.noun_class] : noun.target;
}

std::string target_compound(const Entry& modifier, const Entry& head, Number number) {
  return modifier.target + "s" + target_noun(head, number);
}

std::string target_adjective(const Entry& adjective, size_t noun_class, Number number) {
  static constexpr const char* kEndings[3][2] = {{"er", "en"}, {"e", "en"}, {"es", "em"}};
  return adjective.target + kEndings[noun_class][index_of(number)];
}

std::string source_verb(const Entry& verb, Number subject, Tense tense) {
  if (tense == Tense::kPast) return verb.source + "ed";
  return subject == Number::kSingular ? verb.source + "t" : verb.source;
}

std::string target_present(const Entry& verb, Number subject) {
  return verb.target + (subject == Number::kSingular ? "et" : "ent");
}

std::string target_auxiliary(Number subject) { return subject == Number::kSingular ? "hat" : "hanen"; }
std::string target_participle(const Entry& verb) { return "ga" + verb.target + "t"; }

}  // namespace fovea::text
