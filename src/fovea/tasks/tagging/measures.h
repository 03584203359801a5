#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/metrics/conll.h"
#include "fovea/models/tagging/labels.h"
#include "fovea/train/task.h"

namespace fovea::tagging {

// f1, precision and recall of chunks (of words, for labels without chunks), and accuracy.
std::span<const train::Measure> measures();

// The default of --valid-metrics; the first decides.
std::vector<std::string> usual_measures(const LabelSet& labels);

// The value of one of these measures, a share from 0 to 1.
double value_of(const metrics::ConllScore& score, std::string_view measure);

}  // namespace fovea::tagging
