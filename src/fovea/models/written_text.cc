#include "fovea/models/written_text.h"

#include <unistd.h>

#include <algorithm>

#include "fovea/base/strings.h"

namespace fovea::models {

std::string line_of(const text::Vocab& vocab, const std::vector<int64_t>& tokens) {
  std::string text = vocab.decode(tokens);
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

WrittenText written_text(const text::Vocab& vocab, const search::Hypothesis& hypothesis) {
  return {line_of(vocab, hypothesis.tokens), hypothesis.log_prob, hypothesis.score};
}

void print_texts(LineWriter& output, const BeamConfig& form, int64_t number, std::span<const WrittenText> best) {
  constexpr int kDigits = 6;
  if (form.n_best) {
    for (const WrittenText& one : best)
      output.line(cat(number, " ||| ", one.text, " ||| F0= ", fixed(one.log_prob, kDigits), " ||| ",
                      fixed(one.score, kDigits)));
  } else if (form.scores) {
    output.line(cat(fixed(best.front().score, kDigits), " ||| ", best.front().text));
  } else {
    output.line(best.front().text);
  }
}

bool has_room_for_progress(const std::string& output) { return output != "-" || isatty(STDOUT_FILENO) == 0; }

}  // namespace fovea::models
