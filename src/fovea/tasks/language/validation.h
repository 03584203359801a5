#pragma once
#include <string>
#include <vector>

#include "fovea/data/token_text.h"
#include "fovea/tasks/language/config.h"
#include "fovea/text/units.h"

namespace fovea::language {

// A text with the documents of the model's configuration; an empty one without files.
data::TokenText load_text(const std::vector<std::string>& files, const text::Units& units, const LanguageConfig& config,
                          const data::TokenTextOptions& options);

// bits-per-byte, or perplexity per unit and per word.
std::vector<std::string> default_measures(const text::Units& units);

}  // namespace fovea::language
