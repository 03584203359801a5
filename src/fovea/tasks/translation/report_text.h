#pragma once
#include <vector>

#include "fovea/tasks/translation/pair_reader.h"
#include "fovea/tasks/translation/report.h"

// The text that `fovea report` shows.
namespace fovea::translation {

// A pair whose target may still be to come from the model.
struct ShownLine {
  TextPair text;
  bool has_target = false;
};

// The first lines with words of what the options name. Throws an Error if there are none, and for source and target
// text with different numbers of lines.
std::vector<ShownLine> read_shown_lines(const ReportOptions& options);

}  // namespace fovea::translation
