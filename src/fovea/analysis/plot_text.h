#pragma once
#include <cstdint>
#include <string>

#include "fovea/analysis/plot.h"

namespace fovea::analysis {

// The plot for a terminal of `width` columns: a panel below the other, each curve of a sign of its own, which the first
// line explains, and below each panel the values of the marked points. Axes are those of svg().
std::string text_plot(const Plot& plot, int64_t width);

}  // namespace fovea::analysis
