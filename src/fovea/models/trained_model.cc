#include "fovea/models/trained_model.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/device.h"

namespace fovea::models {
namespace {

at::Device device_of(const MachineOptions& machine) {
  nn::set_cpu_threads(machine.cpu_threads);
  return nn::parse_device(machine.devices);
}

nn::Checkpoint checkpoint_of(const std::string& model, const std::vector<std::string>& tasks, std::string_view option) {
  nn::Checkpoint checkpoint = nn::load_checkpoint(model, nn::Load::kModel, option);
  require_task(model, checkpoint.identity.task, tasks, option);
  return checkpoint;
}

}  // namespace

TrainedModel::TrainedModel(const TrainedModelOptions& options, const std::vector<std::string>& tasks,
                           std::string_view option)
    : options_(options), device_(device_of(options)), checkpoint_(checkpoint_of(options.model, tasks, option)) {}

TrainedModel::TrainedModel(nn::Checkpoint checkpoint, const TrainedModelOptions& options)
    : options_(options), device_(device_of(options)), checkpoint_(std::move(checkpoint)) {}

const std::string& TrainedModel::file(const std::string& name) const {
  const auto found = identity().files.find(name);
  if (found == identity().files.end()) throw Error(cat(folder(), ": damaged: it has no ", name));
  return found->second;
}

void TrainedModel::require_vocabulary(const std::vector<int64_t>& dim_vocabs, int64_t size,
                                      std::string_view what) const {
  if (dim_vocabs != std::vector<int64_t>{size})
    throw Error(cat(path(nn::kConfigFile), ": dim-vocabs: expected [", size, "], ", what));
}

void TrainedModel::take_weights(torch::nn::Module& module) const {
  nn::load_parameters(module, checkpoint_.model, path(nn::kModelFile));
}

void TrainedModel::finish(torch::nn::Module& module) const {
  nn::move_module(module, device_, options_.precision == "bfloat16" ? at::kBFloat16 : at::kFloat);
  module.eval();
}

}  // namespace fovea::models
