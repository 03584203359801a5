#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace fovea::text {

// A word of both languages.
struct Entry {
  std::string source, target;
  size_t noun_class = 0;  // of the target's noun
};

struct Lexicon {
  std::vector<Entry> nouns, names, verbs, adjectives, adverbs, prepositions;
};
const Lexicon& lexicon();

enum class Number : size_t { kSingular, kPlural };

// The forms of the languages. Articles and endings of the target by class and number.
std::string source_article(bool definite);
std::string target_article(bool definite, size_t noun_class, Number number);
std::string source_noun(const Entry& noun, Number number);
std::string target_noun(const Entry& noun, Number number);
std::string target_compound(const Entry& modifier, const Entry& head, Number number);
std::string target_adjective(const Entry& adjective, size_t noun_class, Number number);
enum class Tense { kPresent, kPast };
std::string source_verb(const Entry& verb, Number subject, Tense tense);
std::string target_present(const Entry& verb, Number subject);
std::string target_auxiliary(Number subject);
std::string target_participle(const Entry& verb);

}  // namespace fovea::text
