#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/analysis/report.h"

namespace fovea::tasks {

// Cross-entropy of the sentences of a report.
struct ReportLoss {
  double nats = 0;  // sum over the units
  int64_t units = 0;
};

// Puts the curve of --sweep on the page: the loss that `measure` finds for each entry. `unit` is what it is per.
void add_report_sweep(const std::vector<std::string>& entries, const std::string& unit,
                      const std::function<ReportLoss(const std::string& entry)>& measure, analysis::Report& report);

}  // namespace fovea::tasks
