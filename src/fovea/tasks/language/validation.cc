#include "fovea/tasks/language/validation.h"

#include "fovea/base/choices.h"

namespace fovea::language {

data::TokenText load_text(const std::vector<std::string>& files, const text::Units& units, const LanguageConfig& config,
                          const data::TokenTextOptions& options) {
  if (files.empty()) return {};
  data::TokenTextOptions complete = options;
  complete.documents = parse_choice<data::Documents>(data::kDocumentsNames, config.documents, "--documents: got");
  return data::load_token_text(files, units, complete);
}

std::vector<std::string> default_measures(const text::Units& units) {
  if (units.is_bytes()) return {"bits-per-byte"};
  return {"perplexity", "perplexity-per-word"};
}

}  // namespace fovea::language
