#include "fovea/train/same_model.h"

#include <system_error>

#include "fovea/base/error.h"
#include "fovea/base/program_name.h"
#include "fovea/base/shell_word.h"
#include "fovea/base/strings.h"
#include "fovea/spec/run_files.h"

namespace fovea::train {

void refuse_other_model(const nn::IdentityDifference& difference, const std::filesystem::path& run) {
  const std::string hint = "; use another --model, or --overwrite to begin again", folder = cat("'", run.string(), "'");
  const std::string &name = difference.name, &before = difference.first, &now = difference.second;
  using Kind = nn::IdentityDifference::Kind;
  if (difference.kind == Kind::kTask)
    throw Error(cat("--task: the run in ", folder, " is of the task ", before, ", got ", now, hint));
  if (difference.kind == Kind::kField)
    throw Error(cat("--", name, ": the run in ", folder, " was made with '", before, "', got '", now, "'", hint));
  if (before.empty()) throw Error(cat("--model: the run in ", folder, " was trained without a ", name, hint));
  if (now.empty()) throw Error(cat("--model: the run in ", folder, " was trained with a ", name, ", got none", hint));
  throw Error(cat("--model: the run in ", folder, " was trained with another ", name, hint));
}

void refuse_options(std::span<const nn::IdentityDifference> options, const std::filesystem::path& run) {
  const nn::IdentityDifference& first = options.front();
  std::string text = cat("--", first.name, ": the run in '", run.string(), "' was made with '", first.first, "', got '",
                         first.second, "'");
  for (const nn::IdentityDifference& other : options.subspan(1))
    text += cat("; --", other.name, ": '", other.first, "', got '", other.second, "'");
  const std::filesystem::path file = run / kRunConfigFile;
  std::error_code none_there;
  const bool has_file = std::filesystem::is_regular_file(file, none_there);
  throw Error(cat(text, "; to continue the run, ",
                  has_file ? cat(program_name(), " train -c ", shell_word(file.string()))
                           : cat("leave ", options.size() > 1 ? "these options" : "this option", " out"),
                  "; for another model, another --model, or --overwrite to begin again"));
}

void check_same_model(const nn::Identity& saved, const nn::Identity& wanted, const std::filesystem::path& run) {
  if (const auto difference = nn::first_difference(saved, wanted)) refuse_other_model(*difference, run);
}

}  // namespace fovea::train
