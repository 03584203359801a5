#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "fovea/text/vocab.h"

namespace fovea::text {

// Counts the lines that a vocabulary's normalisation changes: no model can write these as the text has them. Runs of
// blanks, and blanks at the ends, do not count. Words and characters that `fovea vocab` counted are never normalised.
class TextChanges {
 public:
  // `vocab` must outlive this.
  explicit TextChanges(const Vocab& vocab) : vocab_(vocab), is_needed_(!vocab.keeps_text() && !vocab.is_counted()) {}

  // Looks at a line. In a long text, only the first lines and a few of the others count.
  void add(std::string_view line);
  // Whether enough lines change that scores of the text suffer.
  bool are_many() const;
  // "34.20% of 1,000 lines, such as 'a' to 'b'", of the lines that were looked at.
  std::string in_words() const;

 private:
  const Vocab& vocab_;
  bool is_needed_;
  int64_t seen_ = 0, checked_ = 0, changed_ = 0;
  std::string before_, after_;  // the place of the first change
};

// The warning of warn_of_changes(), or "".
std::string change_warning(const TextChanges& changes, const Vocab& vocab, std::string_view what);

// A warning in the log about the text that a model learns to write, if many lines change. `what` names them: "target
// lines".
void warn_of_changes(const TextChanges& changes, const Vocab& vocab, std::string_view what);

}  // namespace fovea::text
