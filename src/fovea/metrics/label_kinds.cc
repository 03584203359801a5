#include "fovea/metrics/label_kinds.h"

#include <algorithm>
#include <functional>

namespace fovea::metrics {
namespace {

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

}  // namespace

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

}  // namespace fovea::metrics
