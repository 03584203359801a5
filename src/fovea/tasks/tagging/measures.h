#pragma once
#include <string>
#include <vector>

#include "fovea/metrics/conll.h"
#include "fovea/models/tagging/labels.h"
#include "fovea/train/measure.h"

namespace fovea::tagging {

// f1, precision and recall of chunks (of words, for labels without chunks), and accuracy.
// All are shares from 0 to 1.
const train::MeasureTable<const metrics::ConllScore>& measures();

// The default of --valid-metrics; the first decides.
std::vector<std::string> usual_measures(const LabelSet& labels);

}  // namespace fovea::tagging
