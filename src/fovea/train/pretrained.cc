#include "fovea/train/pretrained.h"

#include <vector>

#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/train/resumption.h"

namespace fovea::train {

std::string options_to_make_equal(const nn::Identity& pretrained, const nn::Identity& wanted) {
  if (pretrained.task != wanted.task) return "";
  std::string text;
  for (const nn::IdentityDifference& field : nn::field_differences(pretrained, wanted)) {
    text += cat(text.empty() ? "" : ", ", "--", field.name, " '", field.first, "', not '", field.second, "'");
  }
  return text.empty() ? "" : cat("; that model has ", text);
}

void log_differing_options(const nn::Identity& pretrained, const nn::Identity& wanted, const std::string& folder) {
  std::vector<OptionChange> free, meaning;
  for (const nn::IdentityDifference& field : nn::field_differences(pretrained, wanted))
    (nn::decides_meaning_of_weights(field.name) ? meaning : free).push_back({field.name, field.first, field.second});
  if (!free.empty())
    log::info(cat("[run] options of the model that differ from those of '", folder, "': ", text_of(free)));
  if (meaning.empty()) return;
  log::warn(cat("--pretrained-model: the weights of '", folder,
                "' fit, but were trained with other options, so they "
                "compute something else here: ",
                text_of(meaning), "; give the options of that model unless you want this"));
}

}  // namespace fovea::train
