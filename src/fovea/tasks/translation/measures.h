#pragma once
#include <string>
#include <vector>

#include "fovea/tasks/writing_score.h"
#include "fovea/train/measure.h"

namespace fovea::translation {

struct TranslationScore : tasks::WritingScore {
  std::vector<std::string> references;
  std::string tokenize;  // --valid-tokenize
};

// ce-mean-words is the mean of -log p over target tokens, </s> included; perplexity is its exponential; accuracy is the
// share of those tokens that are the most probable; bleu, chrf and ter are sacreBLEU's on the translations, with
// --documents on whole documents.
const train::MeasureTable<TranslationScore>& measures();
std::vector<std::string> default_measures();

}  // namespace fovea::translation
