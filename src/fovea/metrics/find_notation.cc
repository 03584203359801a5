#include "fovea/metrics/find_notation.h"

#include <algorithm>

#include "fovea/metrics/dialect_votes.h"
#include "fovea/metrics/label_kinds.h"

namespace fovea::metrics {
namespace {

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
