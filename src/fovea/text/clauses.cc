#include "fovea/text/clauses.h"

#include <algorithm>
#include <utility>

#include "fovea/text/clause_flags.h"
#include "fovea/text/utf8.h"

namespace fovea::text {
namespace {

using Role = ClauseDictionary::Role;

}  // namespace

std::vector<ClauseStart> clause_starts(std::span<const ClauseDictionary::Tagged> signals) {
  std::vector<ClauseStart> starts;
  bool after_punctuation = false;
  size_t begin = 0;  // of the opening marks before the token, which belong to it
  for (size_t i = 0; i < signals.size(); ++i) {
    if (i == 0 || signals[i - 1].role != Role::kOpening) begin = i;
    const bool is_signal = signals[i].role == Role::kSignal,
               is_punctuation = is_signal && signals[i].signal == Signal::kPunctuation;
    const bool stays = is_punctuation || signals[i].role == Role::kClosing;
    if (after_punctuation && stays) continue;
    int64_t level = is_signal && !is_punctuation ? level_of(signals[i].signal) : 0;
    if (after_punctuation) level = level_of(Signal::kPunctuation);
    const bool is_new = starts.empty() || starts.back().at < begin;
    if (level > 0 && begin > 0 && is_new) starts.push_back({begin, level});
    after_punctuation = is_punctuation;
  }
  return starts;
}

std::vector<ClauseStart> clause_starts(std::span<const std::string> words, std::span<const std::string> tags,
                                       const ClauseDictionary& dictionary) {
  return clause_starts(dictionary.signals(words, tags));
}

std::vector<SignalWord> signal_words(std::string_view text, const ClauseDictionary& dictionary) {
  const std::vector<TextToken> tokens = dictionary.tokens(text);
  const auto signals = dictionary.signals(words_of(tokens, text), {});
  std::vector<SignalWord> words;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (signals[i].role == Role::kSignal) words.push_back({tokens[i].begin, signals[i].signal});
  return words;
}

std::vector<ClauseStart> clause_starts(std::string_view text, const ClauseDictionary& dictionary) {
  const std::vector<TextToken> tokens = dictionary.tokens(text);
  std::vector<ClauseStart> starts = clause_starts(dictionary.signals(words_of(tokens, text), {}));
  for (ClauseStart& start : starts) start.at = tokens[start.at].begin;
  return starts;
}

std::vector<std::string> clauses(std::string_view text, std::span<const ClauseStart> starts, int64_t level) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  size_t begin = 0;
  for (const ClauseStart& start : starts) {
    if (start.level > level) continue;
    parts.emplace_back(text.substr(begin, start.at - begin));
    begin = start.at;
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

PieceText text_of(const Vocab& vocab, std::span<const int64_t> pieces) {
  PieceText result;
  for (const int64_t id : pieces) {
    result.text += vocab.surface(id);
    result.ends.push_back(result.text.size());
  }
  return result;
}

std::vector<uint8_t> clause_levels(const Vocab& vocab, std::span<const int64_t> pieces, const PieceText& of,
                                   std::span<const ClauseStart> starts) {
  const auto& [text, ends] = of;
  std::vector<uint8_t> levels(pieces.size(), 0);
  size_t next = 0, begin = 0;
  for (size_t i = 0; i < pieces.size(); begin = ends[i++]) {
    size_t first = begin;  // of its text, behind blanks
    for (size_t blank = 0; first < ends[i] && (blank = white_space_size(std::string_view(text).substr(first))) > 0;)
      first += blank;
    if (first >= ends[i]) continue;
    for (; next < starts.size() && starts[next].at <= first; ++next) {
      const auto level = static_cast<uint8_t>(starts[next].level);
      levels[i] = levels[i] == 0 ? level : std::min(levels[i], level);
    }
    for (size_t flag = i; flag > 0 && is_clause_flag(vocab, pieces[flag - 1]); --flag)
      std::swap(levels[flag - 1], levels[flag]);
  }
  if (!levels.empty()) levels.front() = 1;
  return levels;
}

std::vector<uint8_t> clause_levels(const Vocab& vocab, const ClauseDictionary& dictionary,
                                   std::span<const int64_t> pieces) {
  const PieceText text = text_of(vocab, pieces);
  return clause_levels(vocab, pieces, text, clause_starts(text.text, dictionary));
}

}  // namespace fovea::text
