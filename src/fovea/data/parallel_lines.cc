#include "fovea/data/parallel_lines.h"

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::data {

bool ParallelLines::next(std::string& source, std::string& target) {
  const bool more_source = source_.next_text(source), more_target = target_.next_text(target);
  if (more_source == more_target) return more_source;
  const LineReader& shorter = more_source ? target_ : source_;
  const LineReader& longer = more_source ? source_ : target_;
  const int64_t lines = shorter.line_number();
  // The rest is not counted: a pipe may have no end.
  throw Error(cat("'", shorter.path(), "' ends after ", thousands(lines), lines == 1 ? " line" : " lines", ", '",
                  longer.path(), "' has more; parallel files need equally many"));
}

}  // namespace fovea::data
