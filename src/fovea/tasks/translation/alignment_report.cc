#include "fovea/tasks/translation/alignment_report.h"

#include <nlohmann/json.hpp>

#include "fovea/base/log.h"
#include "fovea/base/strings.h"

namespace fovea::translation {

std::string share_text(const std::optional<double>& share) {
  constexpr int kShareDigits = 4;
  return share ? fixed(*share, kShareDigits) : "-";
}

std::string summary_line(const analysis::AlignmentCounts& counts, int64_t pairs) {
  return cat("AER ", share_text(counts.error_rate()), " precision ", share_text(counts.precision()), " recall ",
             share_text(counts.recall()), " pairs ", pairs, " links ", counts.links(), " sure ", counts.sure(),
             " possible ", counts.possible());
}

std::string summary_json(const analysis::AlignmentCounts& counts, int64_t pairs) {
  const auto share = [](const std::optional<double>& value) { return value ? nlohmann::json(*value) : nullptr; };
  const nlohmann::ordered_json object = {{"aer", share(counts.error_rate())}, {"precision", share(counts.precision())},
                                         {"recall", share(counts.recall())},  {"pairs", pairs},
                                         {"links", counts.links()},           {"sure", counts.sure()},
                                         {"possible", counts.possible()}};
  return object.dump();
}

void warn_of_no_links(const analysis::AlignmentCounts& counts) {
  if (counts.links() > 0) return;
  log::warn(cat("the model gives no links, as none of its attention weights on words is above 0; precision is 0 / 0",
                counts.sure() == 0 ? ", and so is AER, as the gold has no sure links" : ""));
}

}  // namespace fovea::translation
