#include "fovea/metrics/find_notation.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/metrics/chunks.h"

namespace fovea::metrics {
namespace {

// Counts the chunks that are written as each dialect writes them.
class DialectVotes {
 public:
  explicit DialectVotes(const LabelForm& form) : form_(form) {}
  void add(std::span<const std::string> labels);  // of one sentence

  int64_t chunks() const { return chunks_; }
  bool has_long_chunk() const { return has_long_chunk_; }  // of two words or more
  // The dialect of most chunks; of equal ones the likeliest.
  LabelDialect winner() const;
  // The share of the chunks that are written in the winner's dialect; 0 without chunks.
  double share() const;

 private:
  LabelForm form_;
  std::array<int64_t, static_cast<size_t>(LabelDialect::kWords)> votes_ = {};  // by dialect
  int64_t chunks_ = 0;
  bool has_long_chunk_ = false;
};

// The first word of the chunk `place` whose letter is not the one of the dialect; -1 if all words' are. `labels` are
// those of the sentence.
int64_t first_odd_word(std::span<const std::string> labels, std::span<const Chunk> chunks, size_t place,
                       const LabelNotation& notation) {
  const Chunk& chunk = chunks[place];
  const ChunkTouch touch = touch_of(chunks, place);
  for (int64_t word = chunk.begin; word < chunk.end; ++word) {
    const char own = parts_of_label(labels[static_cast<size_t>(word)], notation.form).letter;
    if (own != letter_of_word(chunk, word, notation.dialect, touch)) return word;
  }
  return -1;
}

void DialectVotes::add(std::span<const std::string> labels) {
  const std::vector<Chunk> chunks = chunks_of(labels, form_);
  for (size_t place = 0; place < chunks.size(); ++place) {
    if (chunks[place].is_word) continue;
    ++chunks_;
    has_long_chunk_ = has_long_chunk_ || chunks[place].end - chunks[place].begin > 1;
    for (const LabelDialect dialect : chunk_dialects()) {
      if (first_odd_word(labels, chunks, place, {dialect, form_}) < 0) ++votes_.at(static_cast<size_t>(dialect));
    }
  }
}

LabelDialect DialectVotes::winner() const {
  const auto votes = [&](LabelDialect dialect) { return votes_.at(static_cast<size_t>(dialect)); };
  return *std::ranges::max_element(chunk_dialects(), {}, votes);
}

double DialectVotes::share() const {
  if (chunks_ == 0) return 0;
  return static_cast<double>(votes_.at(static_cast<size_t>(winner()))) / static_cast<double>(chunks_);
}

// A form that some labels of a data set have.
struct FormCandidate {
  LabelForm form;
  std::set<char> letters = {};  // that mark chunks, as capitals
  int64_t words = 0;            // with such labels
  int64_t words_foreign = 0;    // whose labels have the form but for their letter, such as "N-ACC"

  bool has_letter(char letter) const { return letters.contains(letter); }
  // A few labels of another kind are slips.
  bool has_foreign() const;
};

// The labels of a data set and the forms that they may have.
class LabelKinds {
 public:
  explicit LabelKinds(LabelSentences sentences);

  // The form of most words first.
  const std::vector<FormCandidate>& candidates() const { return candidates_; }
  bool has_outside(const LabelForm& form) const { return words_.contains(std::string(form.outside())); }
  // Whether nearly all labels but O are of the candidate's form.
  bool is_alone(const FormCandidate& candidate) const;
  // The labels that resemble those of chunks or O and do not have the form.
  std::vector<std::string> lookalikes(const LabelForm& form) const;

 private:
  bool resembles_others(const std::string& label) const;
  std::map<std::string, int64_t> words_;  // by label, how many have it
  std::vector<FormCandidate> candidates_;
};

constexpr int64_t kSlips = 20;  // one word among so many

bool is_lower_letter(char c) { return c >= 'a' && c <= 'z'; }
bool is_ascii_letter(char c) { return is_lower_letter(c) || (c >= 'A' && c <= 'Z'); }
bool is_outside_label(std::string_view label) { return label == "O" || label == "o"; }

// The meanings of the label in each form that it may have. Its letter may be any.
struct PossibleForm {
  LabelForm form;
  char letter;
  std::string_view type = {};
};
std::vector<PossibleForm> possible_forms(std::string_view label) {
  std::vector<PossibleForm> forms;
  const size_t size = label.size();
  const auto add = [&](LabelForm form, char letter, std::string_view type) {
    form.is_lower = form.is_outside_lower = is_lower_letter(letter);
    const char capital = form.is_lower ? static_cast<char>(letter - 'a' + 'A') : letter;
    if (is_ascii_letter(letter) && capital != 'O') forms.push_back({form, capital, type});
  };
  if (size == 1) add({.has_types = false}, label[0], "");
  if (size >= 2 && separates_label_parts(label[1])) add({.separator = label[1]}, label[0], label.substr(2));
  if (size >= 3 && separates_label_parts(label[size - 2]))
    add({.is_type_first = true, .separator = label[size - 2]}, label[size - 1], label.substr(0, size - 2));
  return forms;
}

bool is_chunk_letter(char c) {
  return kChunkLetters.find(is_lower_letter(c) ? static_cast<char>(c - 'a' + 'A') : c) != std::string_view::npos;
}

// "BPER" and "B--PER" for a known type PER, and "MM_O" and "BB_O_PER", which LingPipe gives words around chunks.
bool is_nearly_in_form(std::string_view label, const std::set<std::string, std::less<>>& types) {
  if (label.empty() || !is_chunk_letter(label[0])) return false;
  if (label.size() >= 4 && label[1] == label[0] && separates_label_parts(label[2]) && label[3] == 'O') return true;
  size_t behind = 1;
  while (behind < label.size() && !is_ascii_letter(label[behind])) ++behind;
  return label.size() - behind > 1 && types.contains(label.substr(behind));
}

// "0", and marks such as "_" in the place of O.
bool is_like_outside(std::string_view label, bool has_outside) {
  const auto is_part_of_name = [](char c) { return is_ascii_letter(c) || static_cast<unsigned char>(c) >= 0x80; };
  if (label == "0" || is_outside_label(label)) return true;
  return !has_outside && label.size() == 1 && std::ranges::none_of(label, is_part_of_name);
}

bool FormCandidate::has_foreign() const { return words_foreign * kSlips > words; }

LabelKinds::LabelKinds(LabelSentences sentences) {
  for (const std::vector<std::string>& labels : sentences) {
    for (const std::string& label : labels) ++words_[label];
  }
  const auto words_of = [&](const char* label) { return words_.contains(label) ? words_.at(label) : 0; };
  for (const auto& [label, words] : words_) {
    for (const PossibleForm& possible : possible_forms(label)) {
      auto found = std::ranges::find(candidates_, possible.form, &FormCandidate::form);
      if (found == candidates_.end()) found = candidates_.insert(found, FormCandidate{.form = possible.form});
      const bool is_chunk = is_chunk_letter(possible.letter);
      (is_chunk ? found->words : found->words_foreign) += words;
      if (is_chunk) found->letters.insert(possible.letter);
    }
  }
  std::ranges::stable_sort(candidates_, std::greater<>(), &FormCandidate::words);
  for (FormCandidate& candidate : candidates_) {
    if (words_of("O") != words_of("o")) candidate.form.is_outside_lower = words_of("o") > words_of("O");
  }
}

bool LabelKinds::is_alone(const FormCandidate& candidate) const {
  int64_t others = 0;
  for (const auto& [label, words] : words_) {
    if (!is_outside_label(label) && parts_of_label(label, candidate.form).prefix == 'W') others += words;
  }
  return others * kSlips <= candidate.words;
}

bool LabelKinds::resembles_others(const std::string& label) const {
  return std::ranges::any_of(possible_forms(label), [&](const PossibleForm& possible) {
    const auto has_form = [&](const FormCandidate& candidate) {
      LabelForm form = candidate.form;
      form.is_outside_lower = possible.form.is_outside_lower;
      return form == possible.form;
    };
    const auto candidate = std::ranges::find_if(candidates_, has_form);
    return is_chunk_letter(possible.letter) && !candidate->has_foreign();
  });
}

std::vector<std::string> LabelKinds::lookalikes(const LabelForm& form) const {
  std::vector<std::string> names;
  std::set<std::string, std::less<>> types;
  for (const auto& [label, words] : words_) {
    const LabelParts parts = parts_of_label(label, form);
    if (parts.prefix != 'W' && parts.prefix != 'O') types.emplace(parts.type);
  }
  for (const auto& [label, words] : words_) {
    if (parts_of_label(label, form).prefix != 'W') continue;
    const bool has_known_type = std::ranges::any_of(
        possible_forms(label), [&](const PossibleForm& p) { return p.form.has_types && types.contains(p.type); });
    const bool is_beside_chunks = form.marks_chunks() && (is_like_outside(label, has_outside(form)) || has_known_type ||
                                                          is_nearly_in_form(label, types));
    if (is_beside_chunks || resembles_others(label)) names.push_back(label);
  }
  if (form.marks_chunks()) return names;
  // Single letters and endings are parts of speech, too: only the first letter of chunks beside others is striking.
  const auto begins = [&](const FormCandidate& candidate) {
    return candidate.has_letter('B') && candidate.letters.size() > 1 && !candidate.has_foreign();
  };
  return std::ranges::any_of(candidates_, begins) ? names : std::vector<std::string>();
}

// Shares of chunks that must be written in one dialect.
constexpr double kMostChunks = 0.8;  // for labels that other label sets have, too
constexpr double kNearlyAll = 0.95;  // beside labels of another kind

DialectVotes votes_of(LabelSentences sentences, const LabelForm& form) {
  DialectVotes votes(form);
  for (const std::vector<std::string>& labels : sentences) votes.add(labels);
  return votes;
}

// Whether letters without types mark chunks.
bool letters_mark_chunks(const LabelKinds& kinds, const FormCandidate& candidate, LabelSentences sentences) {
  if (candidate.has_foreign()) return false;
  const DialectVotes votes = votes_of(sentences, candidate.form);
  const bool has_outside = kinds.has_outside(candidate.form);
  if (!kinds.is_alone(candidate)) return has_outside && votes.has_long_chunk() && votes.share() >= kNearlyAll;
  if (!has_outside) return candidate.has_letter('B') && votes.share() >= kMostChunks;
  const bool is_usual = std::ranges::all_of(candidate.letters, [](char c) { return c == 'B' || c == 'I'; });
  return is_usual || votes.share() >= kMostChunks;
}

// Whether labels of this candidate's form mark chunks.
bool marks_chunks(const LabelKinds& kinds, const FormCandidate& candidate, LabelSentences sentences) {
  const LabelForm& form = candidate.form;
  const bool has_outside = kinds.has_outside(form), is_alone = kinds.is_alone(candidate);
  const bool is_usual = form.has_types && form.separator == '-' && !form.is_type_first && !form.is_lower;
  if (!candidate.has_letter('B') && !candidate.has_letter('I'))
    return is_usual && has_outside && !candidate.letters.empty() && !candidate.has_foreign();
  if (!form.has_types) return letters_mark_chunks(kinds, candidate, sentences);
  if (!candidate.has_foreign() && is_alone && (is_usual || has_outside)) return true;
  if (!candidate.has_foreign() && is_usual && has_outside) return true;
  if (candidate.words_foreign >= candidate.words) return false;
  const DialectVotes votes = votes_of(sentences, form);
  const bool is_beside_others = has_outside && votes.has_long_chunk();
  if (candidate.has_foreign()) return is_beside_others && votes.share() >= kNearlyAll;
  return (is_alone || is_usual || is_beside_others) && votes.share() >= kMostChunks;
}

LabelForm find_form(const LabelKinds& kinds, LabelSentences sentences) {
  for (const FormCandidate& candidate : kinds.candidates()) {
    if (marks_chunks(kinds, candidate, sentences)) return candidate.form;
  }
  return kWordsAlone;
}

// The chunks that are not written in the dialect.
OddLabels chunks_in_other_dialects(LabelSentences sentences, const LabelNotation& notation) {
  OddLabels odd;
  for (size_t s = 0; s < sentences.size(); ++s) {
    const std::vector<Chunk> chunks = chunks_of(sentences[s], notation.form);
    for (size_t place = 0; place < chunks.size(); ++place) {
      if (chunks[place].is_word) continue;
      const int64_t word = first_odd_word(sentences[s], chunks, place, notation);
      if (word < 0) continue;
      if (odd.count++ == 0) {
        odd.sentence = s;
        odd.word = static_cast<size_t>(word);
      }
      const std::string& label = sentences[s][static_cast<size_t>(word)];
      if (std::ranges::find(odd.names, label) == odd.names.end()) odd.names.push_back(label);
    }
  }
  return odd;
}

OddLabels words_with_labels(LabelSentences sentences, const std::vector<std::string>& names) {
  OddLabels odd;
  odd.names = names;
  if (names.empty()) return odd;
  for (size_t s = 0; s < sentences.size(); ++s) {
    for (size_t w = 0; w < sentences[s].size(); ++w) {
      if (std::ranges::find(names, sentences[s][w]) == names.end()) continue;
      if (odd.count++ > 0) continue;
      odd.sentence = s;
      odd.word = w;
    }
  }
  return odd;
}

}  // namespace

FoundNotation find_notation(LabelSentences sentences, const KnownNotation& known) {
  const LabelKinds kinds(sentences);
  FoundNotation found;
  const bool are_words = known.dialect == LabelDialect::kWords || (known.form && !known.form->marks_chunks());
  found.notation.form = are_words ? kWordsAlone : known.form ? *known.form : find_form(kinds, sentences);
  if (!are_words) found.lookalikes = words_with_labels(sentences, kinds.lookalikes(found.notation.form));
  if (!found.notation.form.marks_chunks()) {
    found.notation.dialect = known.dialect.value_or(LabelDialect::kWords);
    if (found.notation.dialect != LabelDialect::kWords) found.notation.form = {};
    return found;
  }
  const DialectVotes votes = votes_of(sentences, found.notation.form);
  found.chunks = votes.chunks();
  found.notation.dialect = known.dialect.value_or(votes.winner());
  if (!known.dialect) found.other_chunks = chunks_in_other_dialects(sentences, found.notation);
  return found;
}

LabelForm form_to_read(LabelSentences sentences, const LabelForm& own) {
  if (!own.marks_chunks()) return own;
  for (const std::vector<std::string>& labels : sentences) {
    for (const std::string& label : labels) {
      if (const char prefix = parts_of_label(label, own).prefix; prefix != 'W' && prefix != 'O') return own;
    }
  }
  const LabelForm other = find_form(LabelKinds(sentences), sentences);
  return other.marks_chunks() ? other : own;
}

}  // namespace fovea::metrics
