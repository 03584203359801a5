#include "fovea/tasks/translation/report_text.h"

#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/tasks/translation/translator.h"

namespace fovea::translation {
namespace {

// Keeps the first lines with a source text.
class LineChoice {
 public:
  explicit LineChoice(const ReportOptions& options) : options_(options) {}
  bool is_full() const { return std::ssize(lines_) == options_.sentences; }
  void add(TextPair pair, bool has_target) {
    if (is_empty_line(pair.source) || (has_target && is_empty_line(pair.target))) {
      ++blank_;
    } else {
      lines_.push_back({std::move(pair), has_target});
    }
  }
  std::vector<ShownLine> take(bool has_more) {
    if (blank_ > 0) log::warn(cat(count_lines(blank_), " without words ", blank_ == 1 ? "was" : "were", " left out"));
    if (has_more) log::info(cat("the text has more lines; --sentences N shows more than ", options_.sentences));
    return std::move(lines_);
  }

 private:
  const ReportOptions& options_;
  std::vector<ShownLine> lines_;
  int64_t blank_ = 0;
};

std::vector<ShownLine> lines_of_pairs(const ReportOptions& options, const std::vector<std::string>& files) {
  LineChoice lines(options);
  PairReader reader(files);
  std::vector<TextPair> next = reader.next(1);
  for (; !next.empty() && !lines.is_full(); next = reader.next(1)) lines.add(std::move(next.front()), true);
  const bool has_more = !next.empty();
  // To the end, because files with different numbers of lines are not translations of each other.
  constexpr size_t kRest = 10'000;
  while (!next.empty()) {
    throw_if_interrupted("the report");
    next = reader.next(kRest);
  }
  return lines.take(has_more);
}

std::vector<ShownLine> lines_of_input(const ReportOptions& options) {
  LineChoice lines(options);
  LineReader reader(options.input);
  std::string line;
  bool has_more = reader.next_text(line);
  for (; has_more && !lines.is_full(); has_more = reader.next_text(line))
    lines.add({line, "", reader.line_number()}, false);
  return lines.take(has_more);
}

}  // namespace

std::vector<ShownLine> read_shown_lines(const ReportOptions& options) {
  if (!options.source.empty()) return {{{options.source, options.target, 1}, !options.target.empty()}};
  std::vector<ShownLine> lines;
  if (!options.train_sets.empty()) {
    lines = lines_of_pairs(options, options.train_sets);
  } else if (!options.reference.empty()) {
    lines = lines_of_pairs(options, {options.input, options.reference});
  } else {
    lines = lines_of_input(options);
  }
  if (lines.empty())
    throw Error(cat(options.input.empty() ? "--train-sets" : "--input",
                    ": the text has no line with words; expected a ", "sentence per line"));
  return lines;
}

}  // namespace fovea::translation
