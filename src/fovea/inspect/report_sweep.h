#pragma once
#include <functional>
#include <string>
#include <vector>

#include "fovea/analysis/report.h"
#include "fovea/models/scorer.h"

namespace fovea::inspect {

// Puts the curve of --sweep on the page: the mean loss of the report's sentences, as `measure` finds it for each entry.
// The loss is per `unit`.
void add_report_sweep(const std::vector<std::string>& entries, const std::string& unit,
                      const std::function<models::GivenScore(const std::string& entry)>& measure,
                      analysis::Report& report);

}  // namespace fovea::inspect
