#include "fovea/text/grammar.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include "fovea/base/rng.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/text/grammar_lexicon.h"

namespace fovea::text {
namespace {

struct NounPhrase {
  const Entry* noun = nullptr;
  const Entry* modifier = nullptr;   // a noun before the noun
  const Entry* adjective = nullptr;  // may be null, as the modifier
  bool is_name = false;
  bool definite = false;
  Number number = Number::kSingular;
};

struct Clause {
  NounPhrase subject;
  const Entry* verb = nullptr;
  Tense tense = Tense::kPresent;
  bool negated = false;
  const Entry* adverb = nullptr;  // comes first, if there is one
  std::optional<NounPhrase> object;
  const Entry* preposition = nullptr;
  NounPhrase place;                     // of the preposition
  std::unique_ptr<Clause> subordinate;  // what is said, thought, ...
};

// Frequent words and rare ones: the square favours the front of the list.
const Entry* pick(const std::vector<Entry>& words, Rng& rng) {
  const double draw = rng.uniform();
  return &words[static_cast<size_t>(draw * draw * static_cast<double>(words.size()))];
}

bool chance(Rng& rng, double probability) { return rng.uniform() < probability; }

NounPhrase make_noun_phrase(Rng& rng) {
  NounPhrase phrase;
  if (chance(rng, 0.15)) {
    phrase.noun = pick(lexicon().names, rng);
    phrase.is_name = true;
    return phrase;
  }
  phrase.noun = pick(lexicon().nouns, rng);
  if (chance(rng, 0.2)) phrase.modifier = pick(lexicon().nouns, rng);
  if (chance(rng, 0.35)) phrase.adjective = pick(lexicon().adjectives, rng);
  phrase.definite = chance(rng, 0.6);
  phrase.number = chance(rng, 0.35) ? Number::kPlural : Number::kSingular;
  return phrase;
}

Clause make_clause(Rng& rng, bool may_nest) {
  Clause clause;
  clause.subject = make_noun_phrase(rng);
  clause.verb = pick(lexicon().verbs, rng);
  clause.tense = chance(rng, 0.4) ? Tense::kPast : Tense::kPresent;
  clause.negated = chance(rng, 0.15);
  if (chance(rng, 0.3)) clause.adverb = pick(lexicon().adverbs, rng);
  if (chance(rng, 0.75)) clause.object = make_noun_phrase(rng);
  if (chance(rng, 0.3)) {
    clause.preposition = pick(lexicon().prepositions, rng);
    clause.place = make_noun_phrase(rng);
  }
  if (may_nest && chance(rng, 0.2)) clause.subordinate = std::make_unique<Clause>(make_clause(rng, false));
  return clause;
}

using Position = size_t;

// The places of a phrase's words in the source.
struct PhrasePlace {
  Position article = 0, adjective = 0, modifier = 0, noun = 0;
};
struct SentencePlaces {
  PhrasePlace subject, object, place;
  Position adverb = 0, verb = 0, negation = 0, preposition = 0, conjunction = 0;
};

// The source side, word by word; the result remembers where each word went.
class SourceWriter {
 public:
  Position add(std::string word) {
    words.push_back(std::move(word));
    return words.size() - 1;
  }

  PhrasePlace phrase(const NounPhrase& p) {
    PhrasePlace at;
    if (!p.is_name) at.article = add(source_article(p.definite));
    if (p.adjective != nullptr) at.adjective = add(p.adjective->source);
    if (p.modifier != nullptr) at.modifier = add(p.modifier->source);
    at.noun = add(source_noun(*p.noun, p.number));
    return at;
  }

  SentencePlaces clause(const Clause& c) {
    SentencePlaces at;
    if (c.adverb != nullptr) at.adverb = add(c.adverb->source);
    at.subject = phrase(c.subject);
    if (c.negated) at.negation = add("no");
    at.verb = add(source_verb(*c.verb, c.subject.number, c.tense));
    if (c.object) at.object = phrase(*c.object);
    if (c.preposition != nullptr) {
      at.preposition = add(c.preposition->source);
      at.place = phrase(c.place);
    }
    return at;
  }

  std::vector<std::string> words;
};

// The target side, in its own order; each word is linked to those of the source that it translates.
class TargetWriter {
 public:
  void add(std::string word, std::initializer_list<Position> sources) {
    for (const Position source : sources) links.emplace(source, words.size());
    words.push_back(std::move(word));
  }

  void phrase(const NounPhrase& p, const PhrasePlace& at) {
    if (p.is_name) return add(p.noun->target, {at.noun});
    add(target_article(p.definite, p.noun->noun_class, p.number), {at.article});
    if (p.adjective != nullptr) add(target_adjective(*p.adjective, p.noun->noun_class, p.number), {at.adjective});
    if (p.modifier != nullptr) return add(target_compound(*p.modifier, *p.noun, p.number), {at.modifier, at.noun});
    add(target_noun(*p.noun, p.number), {at.noun});
  }

  void finite_verb(const Clause& c, const SentencePlaces& at) {
    const bool past = c.tense == Tense::kPast;
    add(past ? target_auxiliary(c.subject.number) : target_present(*c.verb, c.subject.number), {at.verb});
  }

  void middle(const Clause& c, const SentencePlaces& at) {
    if (c.object) phrase(*c.object, at.object);
    if (c.negated) add("nik", {at.negation});
    if (c.preposition != nullptr) {
      add(c.preposition->target, {at.preposition});
      phrase(c.place, at.place);
    }
    if (c.tense == Tense::kPast) add(target_participle(*c.verb), {at.verb});
  }

  void main_clause(const Clause& c, const SentencePlaces& at) {
    if (c.adverb != nullptr) {
      add(c.adverb->target, {at.adverb});
      finite_verb(c, at);
      phrase(c.subject, at.subject);
    } else {
      phrase(c.subject, at.subject);
      finite_verb(c, at);
    }
    middle(c, at);
  }

  void subordinate_clause(const Clause& c, const SentencePlaces& at) {
    add("dasch", {at.conjunction});
    phrase(c.subject, at.subject);
    if (c.adverb != nullptr) add(c.adverb->target, {at.adverb});
    middle(c, at);
    finite_verb(c, at);
  }

  std::vector<std::string> words;
  std::set<std::pair<Position, Position>> links;
};

Pair write(const Clause& clause) {
  SourceWriter source;
  TargetWriter target;
  const SentencePlaces main = source.clause(clause);
  target.main_clause(clause, main);
  if (clause.subordinate != nullptr) {
    const Position conjunction = source.add("sat");
    SentencePlaces sub = source.clause(*clause.subordinate);
    sub.conjunction = conjunction;
    target.subordinate_clause(*clause.subordinate, sub);
  }
  target.add(".", {source.add(".")});
  std::vector<std::string> links;
  for (const auto& [from, to] : target.links) links.push_back(cat(from, "-", to));
  return {join(source.words, " "), join(target.words, " "), join(links, " ")};
}

}  // namespace

Bitext generate_bitext(const GrammarOptions& options) {
  Bitext bitext{.source_lang = "src", .target_lang = "trg", .pairs = {}};
  Rng rng(static_cast<uint64_t>(options.seed));
  std::unordered_set<std::string> seen;
  while (std::ssize(bitext.pairs) < options.pairs) {
    throw_if_interrupted("generating sentences");
    Pair pair = write(make_clause(rng, true));
    if (seen.insert(pair.source).second) bitext.pairs.push_back(std::move(pair));
  }
  return bitext;
}

}  // namespace fovea::text
