#include <ATen/Functions.h>

#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint.h"

namespace fovea::nn {
namespace fs = std::filesystem;
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

void average_checkpoints(const fs::path& run, int64_t count, const fs::path& output) {
  const std::vector<fs::path> found = list_checkpoints(run);
  if (found.empty()) {
    throw Error(cat("--model: '", run.string(), "' ", fs::exists(run) ? "has no checkpoints" : "does not exist",
                    "; expected the folder of a run"));
  }
  std::error_code none_there;
  if (fs::equivalent(fs::absolute(output).parent_path(), found.back().parent_path(), none_there)) {
    throw Error(cat("--output: '", output.string(), "' is among the run's own checkpoints; name another folder"));
  }
  if (count < 1 || static_cast<int64_t>(found.size()) < count)
    throw Error(cat("--last ", count, ": '", run.string(), "' has ", found.size(),
                    " checkpoints; train with a larger --keep-last or average fewer"));
  Checkpoint mean = load_checkpoint(found.back(), Load::kModel);
  NamedTensors sums;
  for (const auto& [name, tensor] : mean.model) sums[name] = tensor.to(at::kDouble);
  for (auto path = found.rbegin() + 1; path != found.rbegin() + count; ++path) {
    throw_if_interrupted("averaging");
    add(sums, load_checkpoint(*path, Load::kModel).model, *path);
  }
  for (auto& [name, tensor] : mean.model)
    tensor = sums.at(name).div_(static_cast<double>(count)).to(tensor.scalar_type());
  throw_if_interrupted("averaging");
  save_checkpoint(output, mean);
}

}  // namespace fovea::nn
