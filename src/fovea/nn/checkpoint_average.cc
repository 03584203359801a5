#include "fovea/nn/checkpoint_average.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fovea/base/aside.h"
#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/replace.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/checkpoint_choice.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/paths.h"

namespace fovea::nn {
namespace fs = std::filesystem;
namespace {

// Throws unless the checkpoint has the identity of the newest.
void check_same_model(const Checkpoint& checkpoint, const Checkpoint& newest) {
  const auto refuse = [&](const auto&... what) {
    throw Error(cat(checkpoint.folder.string(), "/", what..., "; average the checkpoints of one model"));
  };
  const std::string other = cat("in '", newest.folder.string(), "'");
  const std::optional<IdentityDifference> difference = first_difference(checkpoint.identity, newest.identity);
  if (!difference) return;
  if (difference->kind == IdentityDifference::Kind::kFile) refuse(difference->name, ": is not the file ", other);
  refuse(kConfigFile, ": ", difference->name, " is '", difference->first, "', but '", difference->second, "' ", other);
}

// The folder to save an average of the run in. Throws an Error that names --output if it is among the run's own
// checkpoints or is a checkpoint from which a run may resume. Brings back what a killed call moved out of its place.
fs::path checked_output(const fs::path& run, const fs::path& output) {
  constexpr std::string_view kOption = "--output";
  fs::path resolved = resolved_path(output, kOption);
  const fs::path own = resolved_path(run / kCheckpointsFolder, kOption);
  const bool within = std::mismatch(own.begin(), own.end(), resolved.begin(), resolved.end()).first == own.end();
  // The links as such; what they lead to may be an average of before.
  const fs::path named = output.has_filename() ? output : output.parent_path();
  const bool in_run = resolved_path(fs::absolute(named).parent_path(), kOption) == resolved_path(run, kOption);
  const bool is_link = std::ranges::find(kCheckpointLinks, named.filename().string()) != kCheckpointLinks.end();
  if (within || (in_run && is_link))
    throw Error(cat("--output: '", output.string(), "' is among the run's own checkpoints; name another folder"));
  if (path_exists(resolved / kProgressFile, kOption))
    throw Error(
        cat("--output: '", output.string(), "' is a checkpoint that training resumes from; name another folder"));
  std::error_code none_there;
  if (fs::is_symlink(resolved, none_there))
    throw Error(cat("--output: '", output.string(), "' is a link to '", fs::read_symlink(resolved, none_there).string(),
                    "', which does not exist; make that folder or remove the link"));
  const fs::path beside = folder_of(resolved);
  finish_killed_replacements({&beside, 1});
  return resolved;
}

void add(NamedTensors& sums, const NamedTensors& model, const fs::path& path) {
  if (model.size() != sums.size()) throw Error(cat(path.string(), ": has other tensors than the run's newest model"));
  for (const auto& [name, tensor] : model) {
    const auto sum = sums.find(name);
    if (sum == sums.end() || sum->second.sizes() != tensor.sizes())
      throw Error(cat(path.string(), ": tensor '", name, "' is not the one of the run's newest model"));
    sum->second.add_(tensor.to(at::kDouble));
  }
}

// The checkpoints to average, oldest first; else an Error that names --model or --last.
std::vector<fs::path> require_checkpoints(const AveragedCheckpoints& averaged) {
  const auto& [run, last, until] = averaged;
  std::vector<fs::path> found = checkpoints_to_average(run, last, until);
  const std::vector<fs::path> all = checkpoints_to_resume(run);
  if (!all.empty()) warn_of_choice(problem_of_last(run), all.back());
  if (all.empty()) {
    throw Error(cat("--model: '", run.string(), "' ",
                    path_exists(run, "--model") ? "has no checkpoints" : "does not exist",
                    "; expected the folder of a run"));
  }
  if (last < 1 || static_cast<int64_t>(found.size()) < last)
    throw Error(cat("--last ", last, ": '", run.string(), "' has ", found.size(), " checkpoints",
                    until > 0 ? cat(" of at most ", until, " updates") : "",
                    "; train with a larger --keep-last or average fewer"));
  found.erase(found.begin(), found.end() - last);
  return found;
}

// The mean of the models of these checkpoints, oldest first. Throws an Error if they are of different models.
Checkpoint mean_of(std::span<const fs::path> checkpoints) {
  Checkpoint mean = read_checkpoint(checkpoints.back(), Load::kModel);
  NamedTensors sums;
  for (const auto& [name, tensor] : mean.model) sums[name] = tensor.to(at::kDouble);
  for (auto path = checkpoints.rbegin() + 1; path != checkpoints.rend(); ++path) {
    throw_if_interrupted("averaging");
    const Checkpoint checkpoint = read_checkpoint(*path, Load::kModel);
    check_same_model(checkpoint, mean);
    add(sums, checkpoint.model, *path);
  }
  for (auto& [name, tensor] : mean.model)
    tensor = sums.at(name).div_(static_cast<double>(checkpoints.size())).to(tensor.scalar_type());
  throw_if_interrupted("averaging");
  return mean;
}

}  // namespace

void average_checkpoints(const AveragedCheckpoints& averaged, const fs::path& output) {
  const std::vector<fs::path> found = require_checkpoints(averaged);
  const fs::path folder = checked_output(averaged.run, output);
  std::vector<std::string> names;
  for (const fs::path& path : found) names.push_back(path.filename().string());
  log::info(cat("[model] averaging ", join(names, ", "), " of ", (averaged.run / kCheckpointsFolder).string()));
  save_checkpoint(folder, mean_of(found));
}

}  // namespace fovea::nn
