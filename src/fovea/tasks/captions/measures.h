#pragma once
#include <string>
#include <vector>

#include "fovea/tasks/writing_score.h"
#include "fovea/train/measure.h"

namespace fovea::captions {

using References = std::vector<std::vector<std::string>>;

struct CaptionScore : tasks::WritingScore {
  const References& references;
};

// ce-mean-words is the mean of -log p over tokens, </s> included; perplexity is its exponential; accuracy is the share
// of those tokens that are the most probable; coco-bleu (BLEU-4) and cider are of the captions that the model writes,
// from 0 to 100 and 1,000.
const train::MeasureTable<CaptionScore>& measures();
std::vector<std::string> default_measures();

}  // namespace fovea::captions
