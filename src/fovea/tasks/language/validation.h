#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/base/collective.h"
#include "fovea/data/token_text.h"
#include "fovea/nn/model.h"
#include "fovea/tasks/language/config.h"
#include "fovea/text/units.h"

namespace fovea::language {

// A text with the documents of the model's configuration; an empty one without files.
data::TokenText load_text(const std::vector<std::string>& files, const text::Units& units, const LanguageConfig& config,
                          const data::TokenTextOptions& options);

// bits-per-byte, or perplexity per unit and per word.
std::vector<std::string> default_measures(const text::Units& units);

struct ValidatedLanguageModel {
  nn::Model model;
  const LanguageConfig& config;
  int64_t mini_batch, begin;
  Collective& team = alone();  // its processes share the work
};
// The values of the measures `names` of a text, read segment by segment.
std::vector<double> values_of_text(const ValidatedLanguageModel& model, const data::TokenText& text,
                                   const std::vector<std::string>& names);

}  // namespace fovea::language
