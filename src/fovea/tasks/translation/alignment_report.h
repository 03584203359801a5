#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "fovea/analysis/alignment.h"

namespace fovea::translation {

// "0.1234", or "-" for 0 / 0.
std::string share_text(const std::optional<double>& share);

// "AER 0.1234 precision 0.8 recall 0.9", and what was counted.
std::string summary_line(const analysis::AlignmentCounts& counts, int64_t pairs);
std::string summary_json(const analysis::AlignmentCounts& counts, int64_t pairs);

// Warns of an alignment without links, whose AER says nothing.
void warn_of_no_links(const analysis::AlignmentCounts& counts);

}  // namespace fovea::translation
