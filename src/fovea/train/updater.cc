#include "fovea/train/updater.h"

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>

#include "fovea/base/rng.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/pass_extras.h"
#include "fovea/ops/optimizers.h"
#include "fovea/ops/step.h"
#include "fovea/train/tensor_groups.h"

namespace fovea::train {
namespace {

constexpr const char* kWeights = "weights/";  // of the optimiser's tensors in a checkpoint: in addition to an average

// Copies into the module's buffers and takes those tensors out of `tensors`.
void take_buffers(const torch::nn::Module& module, nn::NamedTensors& tensors, const std::string& origin,
                  Updater::Coverage coverage) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, buffer] : nn::buffers_of(module)) {
    const bool is_optional = coverage == Updater::Coverage::kPart && !tensors.contains(name);
    if (!is_optional) buffer.copy_(nn::tensor_of(tensors, name, buffer.sizes(), origin));
    tensors.erase(name);
  }
}

}  // namespace

Updater::Updater(const TrainConfig& config, torch::nn::Module& module, const at::Device& device,
                 const nn::ParameterRules& rules)
    : config_(config),
      module_(module),
      parameters_(module, device, config.precision == "bfloat16" ? at::kBFloat16 : at::kFloat, rules),
      optimizer_(make_optimizer(config, parameters_)) {
  if (config.exponential_smoothing > 0) average_ = parameters_.weights().clone();
}

UpdateResult Updater::update(Task& task, const UpdateInput& input) {
  UpdateResult result;
  parameters_.clear_gradients();
  nn::UpdateSums sums;
  for (int64_t i = 0; i < input.passes; ++i) {
    const uint64_t seed = hash_combine(static_cast<uint64_t>(input.dropout_seed), static_cast<uint64_t>(i));
    nn::PassExtras extras;
    const nn::ForwardContext context{.training = true,
                                     .dropout_seed = static_cast<int64_t>(seed >> 1),
                                     .recompute = config_.gradient_checkpointing,
                                     .extras = &extras};
    const BatchLoss batch = task.loss(input.first + i, context);
    (extras.loss().defined() ? batch.loss + batch.weight * extras.loss() : batch.loss).backward();
    sums.add(extras.sums());
    parameters_.add_gradients();
    result.cost += batch.loss.item<double>();
    result.weight += batch.weight;
    for (const auto& [name, value] : batch.notes) result.notes.add(name, value, batch.weight);
    for (const auto& [name, value] : extras.notes()) result.notes.add(name, value, batch.weight);
  }
  const torch::NoGradGuard no_grad;
  const double per_unit = 1.0 / result.weight;
  result.gradient_norm = ops::l2_norm(parameters_.gradients()) * per_unit;
  result.made = std::isfinite(result.cost) && std::isfinite(result.gradient_norm);
  if (!result.made) return result;
  OptimizerStep step = clipped_step(result.gradient_norm, per_unit);
  step.update = input.update;
  step.learn_rate = input.learn_rate;
  is_whole_ = false;
  std::visit([&](auto& optimizer) { optimizer.step(parameters_, step); }, optimizer_);
  parameters_.clamp();
  sums.apply();
  move_average(input.update);
  is_whole_ = true;
  return result;
}

OptimizerStep Updater::clipped_step(double norm, double per_unit) const {
  OptimizerStep step{.gradient_scale = per_unit};
  if (config_.clip_norm_tensor > 0) {
    std::vector<at::Tensor> gradients;
    for (const auto& [name, gradient] : parameters_.views(parameters_.gradients())) gradients.push_back(gradient);
    double squares = 0;
    for (const double sum_norm : ops::l2_norms(gradients)) {
      const double own = sum_norm * per_unit;
      step.tensor_scales.push_back(own > config_.clip_norm_tensor ? config_.clip_norm_tensor / own : 1);
      squares += std::pow(own * step.tensor_scales.back(), 2);
    }
    norm = std::sqrt(squares);
  }
  if (config_.clip_norm > 0 && norm > config_.clip_norm) step.gradient_scale = per_unit * config_.clip_norm / norm;
  return step;
}

void Updater::move_average(int64_t update) {
  if (!averages()) return;
  // The first updates count more, or the average would keep the initial weights for a long time.
  const auto t = static_cast<double>(update);
  average_.lerp_(parameters_.weights(), std::max(config_.exponential_smoothing, 9.0 / (t + 9.0)));
}

void Updater::exchange_average() {
  if (!averages()) return;
  const torch::NoGradGuard no_grad;
  const c10::Storage &weights = parameters_.weights().storage(), &average = average_.storage();
  average.set_data_ptr(weights.set_data_ptr(average.set_data_ptr({})));
  parameters_.refresh();
}

void Updater::store(nn::Checkpoint& checkpoint) const {
  checkpoint.model = parameters_.views(averages() ? average_ : parameters_.weights());
  insert_group(checkpoint.model, "", nn::buffers_of(module_));
  insert_group(checkpoint.optimizer, "", state_of(optimizer_, parameters_));
  if (averages()) insert_group(checkpoint.optimizer, kWeights, parameters_.views(parameters_.weights()));
}

void Updater::restore_weights(const nn::NamedTensors& weights, const std::string& origin, Coverage coverage) {
  nn::NamedTensors given = weights;
  take_buffers(module_, given, origin, coverage);
  if (coverage == Coverage::kPart) {
    for (const auto& [name, own] : parameters_.views(parameters_.weights())) given.emplace(name, own);
  }
  train::restore(parameters_, parameters_.weights(), given, origin);
  parameters_.refresh();
  const torch::NoGradGuard no_grad;
  if (averages()) average_.copy_(parameters_.weights());
}

void Updater::restore(const nn::Checkpoint& checkpoint, const std::string& origin) {
  restore_state(optimizer_, parameters_, checkpoint.optimizer, origin);
  nn::NamedTensors model = checkpoint.model;
  take_buffers(module_, model, origin, Coverage::kAll);
  const nn::NamedTensors raw = extract_group(checkpoint.optimizer, kWeights);
  train::restore(parameters_, parameters_.weights(), raw.empty() ? model : raw, origin);
  parameters_.refresh();
  const torch::NoGradGuard no_grad;
  if (averages()) average_.copy_(parameters_.weights());
  if (averages() && !raw.empty()) train::restore(parameters_, average_, model, origin);
}

}  // namespace fovea::train
