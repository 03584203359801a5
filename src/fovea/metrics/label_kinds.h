#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/metrics/find_notation.h"

namespace fovea::metrics {

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

}  // namespace fovea::metrics
