#include "fovea/nn/checkpoint_average.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "fovea/base/aside.h"
#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
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

}  // namespace

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
  restore_folder(resolved);
  return resolved;
}

namespace {

void add(NamedTensors& sums, const NamedTensors& model, const fs::path& path) {
  if (model.size() != sums.size()) throw Error(cat(path.string(), ": has other tensors than the run's newest model"));
  for (const auto& [name, tensor] : model) {
    const auto sum = sums.find(name);
    if (sum == sums.end() || sum->second.sizes() != tensor.sizes())
      throw Error(cat(path.string(), ": tensor '", name, "' is not the one of the run's newest model"));
    sum->second.add_(tensor.to(at::kDouble));
  }
}

}  // namespace

std::vector<fs::path> require_checkpoints(const fs::path& run, int64_t count) {
  std::vector<fs::path> found = checkpoints_to_average(run, count);
  if (!found.empty()) warn_of_choice(problem_of_last(run), found.back());
  if (found.empty()) {
    throw Error(cat("--model: '", run.string(), "' ",
                    path_exists(run, "--model") ? "has no checkpoints" : "does not exist",
                    "; expected the folder of a run"));
  }
  if (count < 1 || static_cast<int64_t>(found.size()) < count)
    throw Error(cat("--last ", count, ": '", run.string(), "' has ", found.size(),
                    " checkpoints; train with a larger --keep-last or average fewer"));
  return found;
}

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

void average_checkpoints(const fs::path& run, int64_t count, const fs::path& output) {
  const std::vector<fs::path> found = require_checkpoints(run, count);
  const fs::path folder = checked_output(run, output);
  const std::span<const fs::path> newest = std::span(found).last(static_cast<size_t>(count));
  std::vector<std::string> names;
  for (const fs::path& path : newest) names.push_back(path.filename().string());
  log::info(cat("[model] averaging ", join(names, ", "), " of ", (run / kCheckpointsFolder).string()));
  const Checkpoint mean = mean_of(newest);
  save_checkpoint(folder, mean);
}

}  // namespace fovea::nn
