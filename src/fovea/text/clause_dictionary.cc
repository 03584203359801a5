#include "fovea/text/clause_dictionary.h"

#include <algorithm>
#include <array>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/text/clause_english.h"
#include "fovea/text/unicode.h"
#include "fovea/text/utf8.h"

namespace fovea::text {
namespace {

constexpr size_t kMostDictionaryBytes = size_t{16} << 20, kMostPhrase = 16;

bool is_ascii_alnum(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Characters inside a word: "don't", "well-known", "3.5", "U.S".
bool joins(char c) { return std::string_view("'.-_@&/").find(c) != std::string_view::npos; }

// Punctuation that is not a signal.
struct MarkKind {
  std::string_view name;
  ClauseDictionary::Role role;
};
constexpr std::array kMarkKinds = {MarkKind{"closing", ClauseDictionary::Role::kClosing},
                                   MarkKind{"opening", ClauseDictionary::Role::kOpening}};
constexpr std::string_view kAbbreviation = "abbreviation";

std::vector<std::string> known_kinds() {
  std::vector<std::string> known(kSignalNames.begin(), kSignalNames.end());
  for (const MarkKind& mark : kMarkKinds) known.emplace_back(mark.name);
  known.emplace_back(kAbbreviation);
  return known;
}

ClauseContext context_of(const std::string& name, const std::string& place) {
  const auto* const found = std::ranges::find(kClauseContextNames, name);
  const std::vector<std::string> known(kClauseContextNames.begin(), kClauseContextNames.end());
  if (found == kClauseContextNames.end())
    throw Error(
        cat(place, ": got the context '", name, "'; expected one of ", join(known, ", "), did_you_mean(name, known)));
  return static_cast<ClauseContext>(found - kClauseContextNames.begin());
}

// The next character's bytes; a byte that is not part of a character counts as one.
std::string phrase_of(std::span<const std::string> words) { return join(words, "\n"); }

std::string_view character_at(std::string_view text, size_t at) {
  return text.substr(at, first_character(text.substr(at)).size);
}

}  // namespace

ClauseDictionary ClauseDictionary::load(const std::string& path) {
  require_file(path, "the dictionary of clauses");
  return parse(read_unpacked(path), path);
}

const ClauseDictionary& ClauseDictionary::english() {
  static const ClauseDictionary kEnglish = parse(kEnglishClauses, "the English dictionary of clauses");
  return kEnglish;
}

ClauseDictionary ClauseDictionary::parse(std::string_view bytes, const std::string& name) {
  if (bytes.size() > kMostDictionaryBytes)
    throw Error(cat("'", name, "' has ", thousands(static_cast<int64_t>(bytes.size())),
                    " bytes; expected a dictionary of signal words of at most ",
                    thousands(static_cast<int64_t>(kMostDictionaryBytes))));
  ClauseDictionary dictionary;
  dictionary.bytes_ = bytes;
  size_t number = 0;
  for (const std::string& line : split(bytes, '\n')) {
    ++number;
    const std::string place = cat("'", name, "' line ", number);
    if (const auto bad = find_bad_byte(line)) throw Error(cat(place, ": ", bad->why));
    if (is_empty_line(line) || line.starts_with('#')) continue;
    dictionary.add(line, place);
  }
  if (dictionary.entries_.empty() && dictionary.by_tag_.empty())
    throw Error(cat("'", name, "' has no signal words; expected lines of a kind, a tab and words"));
  for (auto& [first, entries] : dictionary.entries_) entries.index();
  return dictionary;
}

void ClauseDictionary::Entries::index() {
  std::ranges::stable_sort(all, [](const Entry& a, const Entry& b) { return a.words.size() > b.words.size(); });
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t size = all[i].words.size();
    if (sizes.empty() || sizes.back() != size) sizes.push_back(size);
    places[phrase_of(all[i].words)].push_back(i);
  }
}

void ClauseDictionary::add(std::string_view line, const std::string& place) {
  const std::vector<std::string> columns = split(line, '\t');
  if (columns.size() < 2 || columns.size() > 4)
    throw Error(cat(place, ": got ", columns.size(), columns.size() == 1 ? " column" : " columns",
                    "; expected a kind, words and perhaps tags and a context, apart by tabs"));
  const std::string kind(trim(columns[0]));
  Entry entry{.words = split_words(columns[1]), .tags = split_words(columns.size() > 2 ? columns[2] : "")};
  tags_.insert(entry.tags.begin(), entry.tags.end());
  if (columns.size() > 3) entry.context = context_of(std::string(trim(columns[3])), place);
  if (entry.words.empty() || entry.words.size() > kMostPhrase)
    throw Error(cat(place, ": got ", entry.words.size(), " words; expected 1 to ", kMostPhrase));
  for (std::string& word : entry.words) word = lower_case(word);
  const auto* const signal = std::ranges::find(kSignalNames, kind);
  const auto* const mark = std::ranges::find(kMarkKinds, kind, &MarkKind::name);
  if (kind == kAbbreviation) {
    for (std::string& word : entry.words) {
      if (word.size() > 1 && word.ends_with('.')) word.pop_back();
      abbreviations_[word] = true;
    }
  } else if (mark != kMarkKinds.end()) {
    entry.role = mark->role;
    add_marks(entry);
  } else if (signal == kSignalNames.end()) {
    throw Error(cat(place, ": got the kind '", kind, "'; expected one of ", join(known_kinds(), ", "),
                    did_you_mean(kind, known_kinds())));
  } else {
    entry.signal = static_cast<Signal>(signal - kSignalNames.begin());
    if (entry.signal == Signal::kPunctuation) {
      add_marks(entry);
    } else {
      add_words(std::move(entry), place);
    }
  }
}

void ClauseDictionary::add_marks(const Entry& entry) {
  for (const std::string& word : entry.words) {
    marks_[word] = true;
    Entry one = entry;
    one.words = {word};
    entries_[word].all.push_back(std::move(one));
  }
}

void ClauseDictionary::add_words(Entry entry, const std::string& place) {
  if (entry.words.front() == "*") {
    if (entry.tags.empty() || entry.words.size() > 1)
      throw Error(
          cat(place, ": '*' stands for any word with certain tags; expected it alone, and tags in a third column"));
    by_tag_.push_back(std::move(entry));
    return;
  }
  // A phrase in a script without blanks is a token per character.
  std::vector<std::string> tokens_of_phrase;
  for (const std::string& word : entry.words)
    for (const TextToken& token : tokens(word))
      tokens_of_phrase.push_back(word.substr(token.begin, token.end - token.begin));
  if (tokens_of_phrase.empty()) throw Error(cat(place, ": got no word; expected one"));
  entry.words = std::move(tokens_of_phrase);
  entries_[entry.words.front()].all.push_back(std::move(entry));
}

std::vector<TextToken> ClauseDictionary::tokens(std::string_view text) const {
  std::vector<TextToken> result;
  const auto is_word_character = [&](std::string_view character) {
    if (character.size() == 1 && static_cast<unsigned char>(character[0]) < 0x80) return is_ascii_alnum(character[0]);
    return !is_mark(character) && white_space_size(character) == 0;
  };
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    if (const size_t blank = white_space_size(text.substr(at)); blank > 0) {
      at += blank;
      in_word = false;
      continue;
    }
    const std::string_view character = character_at(text, at);
    const size_t end = at + character.size();
    const bool next_is_word = end < text.size() && is_word_character(character_at(text, end));
    const bool alone = stands_alone(character);
    bool continues = in_word && !alone && is_word_character(character);
    if (in_word && joins(character[0]) && next_is_word) continues = true;
    const bool between_digits =
        at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9' && next_is_word && text[end] >= '0' && text[end] <= '9';
    if (in_word && (character == "," || character == ":") && between_digits) continues = true;
    if (continues) {
      result.back().end = end;
      at = end;
      continue;
    }
    if (character == "." && in_word &&
        is_abbreviation(lower_case(text.substr(result.back().begin, at - result.back().begin)))) {
      result.back().end = at = end;
      continue;
    }
    in_word = !alone && is_word_character(character);
    result.push_back({at, end, in_word || alone});
    at = end;
  }
  return result;
}

std::vector<std::string> words_of(std::span<const TextToken> tokens, std::string_view text) {
  std::vector<std::string> words;
  words.reserve(tokens.size());
  for (const TextToken& token : tokens) words.emplace_back(text.substr(token.begin, token.end - token.begin));
  return words;
}

const ClauseDictionary::Entry* ClauseDictionary::match(std::span<const std::string> folded,
                                                       std::span<const std::string> tags, size_t at) const {
  const auto has_tag = [&](const Entry& entry) { return std::ranges::find(entry.tags, tags[at]) != entry.tags.end(); };
  const auto stands = [&](const Entry& entry) {
    return stands_in(entry.context, {folded, tags, at, at + entry.words.size()});
  };
  const auto fits = [&](const Entry& entry) {
    if (!tags.empty() && !entry.tags.empty() && !has_tag(entry)) return false;
    return stands(entry);
  };
  if (const auto found = entries_.find(folded[at]); found != entries_.end()) {
    for (const size_t size : found->second.sizes) {
      if (size > folded.size() - at) continue;
      const auto places = found->second.places.find(phrase_of(folded.subspan(at, size)));
      if (places == found->second.places.end()) continue;
      for (const size_t place : places->second)
        if (fits(found->second.all[place])) return &found->second.all[place];
    }
  }
  if (tags.empty()) return nullptr;
  const auto entry = std::ranges::find_if(by_tag_, [&](const Entry& e) { return has_tag(e) && stands(e); });
  return entry == by_tag_.end() ? nullptr : &*entry;
}

std::vector<ClauseDictionary::Tagged> ClauseDictionary::signals(std::span<const std::string> words,
                                                                std::span<const std::string> tags) const {
  std::vector<std::string> folded;
  folded.reserve(words.size());
  for (const std::string& word : words) folded.push_back(lower_case(word));
  std::vector<Tagged> result(words.size());
  for (size_t i = 0; i < words.size();) {
    const Entry* entry = match(folded, tags, i);
    if (entry != nullptr) result[i] = {entry->role, entry->signal};
    i += entry != nullptr ? std::max<size_t>(entry->words.size(), 1) : 1;
  }
  return result;
}

std::vector<ClauseDictionary::Tagged> ClauseDictionary::labelled_signals(std::span<const std::string> words,
                                                                         std::span<const std::string> labels) const {
  std::vector<Tagged> result(words.size());
  for (size_t i = 0; i < words.size(); ++i) {
    const auto* const label = std::ranges::find(kSignalLabels, labels[i]);
    if (label == kSignalLabels.end()) continue;
    result[i] = {Role::kSignal, static_cast<Signal>(label - kSignalLabels.begin())};
    const auto mark = entries_.find(lower_case(words[i]));
    if (result[i].signal == Signal::kPunctuation && mark != entries_.end())
      result[i].role = mark->second.all.front().role;
  }
  return result;
}

}  // namespace fovea::text
