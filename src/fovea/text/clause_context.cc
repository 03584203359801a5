#include "fovea/text/clause_context.h"

#include <algorithm>
#include <initializer_list>

namespace fovea::text {
namespace {

using Names = std::initializer_list<std::string_view>;

bool is_among(std::string_view name, Names names) { return std::ranges::find(names, name) != names.end(); }

// Penn's tags of finite verbs, and the two verb tags of the Universal tag set, which does not tell forms apart.
bool is_finite(std::string_view tag) { return is_among(tag, {"VBD", "VBZ", "VBP", "MD", "VERB", "AUX"}); }
bool is_noun(std::string_view tag) { return is_among(tag, {"NN", "NNS", "NNP", "NNPS", "CD", "NOUN", "PROPN", "NUM"}); }
bool is_adverb(std::string_view tag) { return is_among(tag, {"RB", "RBR", "RBS", "ADV"}); }
bool is_pause(std::string_view tag) { return is_among(tag, {",", ".", ":", "``", "''", "\"", "PUNCT"}); }
bool is_opening(std::string_view tag) { return tag == "(" || tag == "-LRB-"; }
bool is_closing(std::string_view tag) { return tag == ")" || tag == "-RRB-"; }

// Pronouns that can only be a subject.
bool is_nominative(std::string_view word) { return is_among(word, {"i", "he", "she", "we", "they"}); }
bool can_be_subject(std::string_view word) { return is_nominative(word) || is_among(word, {"it", "you", "there"}); }

// Begins a clause with a finite verb of its own.
bool subordinates(std::string_view word, std::string_view tag) {
  if (is_among(tag, {"WDT", "WP", "WP$", "WRB"})) return true;
  return is_among(tag, {"IN", "SCONJ"}) && is_among(word, {"that", "if", "whether", "because", "while", "although",
                                                           "unless", "though", "whereas", "lest"});
}
// Conjunction or preposition, which only this very question could tell.
bool is_ambiguous(std::string_view word, std::string_view tag) {
  return tag == "IN" && is_among(word, {"after", "as", "since", "before", "until", "till", "than", "once", "so"});
}

// Reads the words behind a signal word for a subject with a finite verb.
class ClauseSearch {
 public:
  explicit ClauseSearch(const ClausePlace& place) : words_(place.words), tags_(place.tags), begin_(place.end) {}

  // Whether they are found before punctuation, the next ambiguous word or the subject of the main clause, as in "since
  // 1990 he has lived here".
  bool finds() const {
    int64_t wanted = 1, depth = 0;  // finite verbs that are still to come; brackets that are open
    for (size_t i = begin_; i < words_.size(); ++i) {
      const std::string& tag = tags_[i];
      if (is_opening(tag) || is_closing(tag)) {
        depth += is_opening(tag) ? 1 : -1;
        if (depth < 0) return false;
        continue;
      }
      if (depth > 0) continue;
      if (is_pause(tag) || is_ambiguous(words_[i], tag) || joins_main_clause(i)) return false;
      if (is_finite(tag) && --wanted == 0) return true;
      if (subordinates(words_[i], tag)) ++wanted;
      if (wanted == 1 && i > begin_ && begins_another_phrase(i)) return false;
    }
    return false;
  }

 private:
  // "until 1986 and voted": the verb belongs to the subject before the signal word.
  bool joins_main_clause(size_t i) const {
    if (!is_among(tags_[i], {"CC", "CCONJ"})) return false;
    const size_t next = i + 1 < tags_.size() && is_adverb(tags_[i + 1]) ? i + 2 : i + 1;
    return words_[i] == "but" || (next < tags_.size() && is_finite(tags_[next]));
  }
  // A second noun phrase, without a verb between the two.
  bool begins_another_phrase(size_t i) const {
    const std::string& before = tags_[i - 1];
    if (can_be_subject(words_[i]) && !is_adverb(before))
      return !is_among(before, {"CC", "CCONJ", "IN", "TO", "ADP", "SCONJ"});
    return is_noun(before) && is_among(tags_[i], {"DT", "PRP$", "EX", "PDT", "DET"});
  }

  std::span<const std::string> words_, tags_;
  size_t begin_;
};

bool begins_clause(const ClausePlace& place) {
  const auto& [words, tags, begin, end] = place;
  if (end >= words.size()) return false;
  if (begin > 0 && is_among(tags[begin - 1], {"WDT", "WP"})) return false;  // "which until then were free"
  const std::string& word = words[end - 1];
  const std::string& next = tags[end];
  if (is_nominative(words[end])) return true;
  if (next == "VBN") return word == "as" || word == "than";  // "than expected"; but "has since gone"
  if (is_among(next, {"VBG", "IN", "TO", "RP"})) return false;
  if (word == "than" && next == "CD") return false;  // "more than 20 people"
  return ClauseSearch(place).finds();
}

bool follows_pause(const ClausePlace& place) { return place.begin > 0 && is_pause(place.tags[place.begin - 1]); }

bool is_time(std::string_view word, std::string_view tag) {
  const bool is_year = is_among(tag, {"CD", "NUM"}) && word.size() == 4;
  return is_year ||
         is_among(word,
                  {"time",     "times",   "day",     "days",      "night",    "morning",   "evening",  "afternoon",
                   "week",     "weekend", "weeks",   "month",     "months",   "year",      "years",    "decade",
                   "century",  "era",     "age",     "moment",    "minute",   "minutes",   "hour",     "hours",
                   "date",     "period",  "season",  "summer",    "winter",   "spring",    "autumn",   "fall",
                   "point",    "stage",   "today",   "yesterday", "tomorrow", "january",   "february", "march",
                   "april",    "may",     "june",    "july",      "august",   "september", "october",  "november",
                   "december", "monday",  "tuesday", "wednesday", "thursday", "friday",    "saturday", "sunday"});
}

// Verbs and adjectives whose object is a question: "asked when", "not clear when".
bool takes_question(std::string_view word) {
  static constexpr std::array<std::string_view, 15> kStems = {"know",    "ask",      "wonder", "decid",   "remember",
                                                              "tell",    "determin", "learn",  "explain", "predict",
                                                              "discuss", "guess",    "forget", "reveal",  "specif"};
  if (is_among(word, {"knew", "told", "see", "sure", "unsure", "certain", "uncertain", "clear", "unclear", "forgot",
                      "say", "announce"}))
    return true;
  return std::ranges::any_of(kStems, [&](std::string_view stem) { return word.starts_with(stem); });
}

bool is_adverbial(const ClausePlace& place) {
  const auto& [words, tags, begin, end] = place;
  if (end >= words.size() || is_pause(tags[end])) return false;
  if (is_among(tags[end], {"VBD", "VBZ", "VBP", "MD", "AUX", "TO"}) || words[end] == "to") return false;
  if (begin == 0) return true;
  size_t before = begin - 1;
  if (takes_question(words[before])) return false;
  if (is_among(tags[before], {"IN", "ADP"})) return is_among(words[before], {"except", "than", "as"});
  if (tags[before] == "," && before > 0) --before;  // "on Friday, when he came"
  return !is_time(words[before], tags[before]);
}

bool precedes_infinitive(const ClausePlace& place) {
  size_t next = place.end;
  while (next < place.tags.size() && is_adverb(place.tags[next])) ++next;
  // If no word follows, "to" stands for its verb: "he wants to."
  if (next >= place.tags.size() || is_pause(place.tags[next])) return true;
  return is_among(place.tags[next], {"VB", "VBP", "VERB", "AUX"});
}

bool is_auxiliary(std::string_view word, std::string_view tag) {
  if (!tag.starts_with('V') && tag != "AUX") return false;  // the genitive's 's, "a human being"
  return is_among(word, {"be", "am", "is", "are", "was", "were", "been", "being", "'m", "'s", "'re", "ai", "have",
                         "has", "had", "having", "'ve", "'d"});
}

bool modifies(const ClausePlace& place) {
  size_t before = place.begin;
  while (before > 0 && is_adverb(place.tags[before - 1])) --before;
  return before == 0 || !is_auxiliary(place.words[before - 1], place.tags[before - 1]);
}

}  // namespace

bool stands_in(ClauseContext context, const ClausePlace& place) {
  if (context == ClauseContext::kAnywhere) return true;
  if (place.tags.empty()) return false;
  switch (context) {
    case ClauseContext::kClause:
      return begins_clause(place);
    case ClauseContext::kPauseClause:
      return follows_pause(place) && begins_clause(place);
    case ClauseContext::kAdverbial:
      return is_adverbial(place);
    case ClauseContext::kInfinitive:
      return precedes_infinitive(place);
    case ClauseContext::kModifier:
      return modifies(place);
    default:
      return true;
  }
}

}  // namespace fovea::text
