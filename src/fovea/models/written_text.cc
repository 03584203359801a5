#include "fovea/models/written_text.h"

#include <unistd.h>

#include <algorithm>
#include <exception>

#include "fovea/base/log.h"
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

std::string printed_texts(const BeamConfig& form, int64_t number, std::span<const WrittenText> best) {
  constexpr int kDigits = 6;
  if (form.scores && !form.n_best) return cat(fixed(best.front().score, kDigits), " ||| ", best.front().text, "\n");
  if (!form.n_best) return best.front().text + "\n";
  std::string lines;
  for (const WrittenText& one : best)
    lines += cat(number, " ||| ", one.text, " ||| F0= ", fixed(one.log_prob, kDigits), " ||| ",
                 fixed(one.score, kDigits), "\n");
  return lines;
}

void print_texts(LineWriter& output, const BeamConfig& form, int64_t number, std::span<const WrittenText> best) {
  output.write(printed_texts(form, number, best));
}

void keep_partial(LineWriter& output, const std::string& inputs) noexcept {
  try {
    const std::string name = output.close_as_partial();
    if (!name.empty()) log::warn(cat("the output of the first ", inputs, " is in '", name, "'"));
  } catch (const std::exception& e) {
    log::error(e.what());  // which reports without an exception; the one that ended the work goes on
  }
}

bool has_room_for_progress(const std::string& output) { return output != "-" || isatty(STDOUT_FILENO) == 0; }

}  // namespace fovea::models
