#pragma once
#include <string>
#include <vector>

#include "fovea/serve/served_model.h"

namespace fovea::serve {

std::string language_name(const std::string& code);  // "German" for "de"; the code itself if nobody knows it
std::string upper_code(const std::string& code);     // "EN-GB" for "en-gb", as DeepL writes them

struct LanguagePair {
  std::string source, target;
};
// The pairs of the named translation models, and all pairs of models of many languages.
std::vector<LanguagePair> language_pairs(const ModelList& models);
// Each language once, in the order of the pairs.
std::vector<std::string> source_languages(const std::vector<LanguagePair>& pairs);
std::vector<std::string> target_languages(const std::vector<LanguagePair>& pairs);

}  // namespace fovea::serve
