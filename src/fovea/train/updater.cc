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
                 const nn::ParameterRules& rules, Collective& team)
    : config_(config),
      module_(module),
      parameters_(module, device, config.precision == "bfloat16" ? at::kBFloat16 : at::kFloat, rules),
      optimizer_(make_optimizer(config, parameters_)),
      team_(team) {
  if (config.exponential_smoothing > 0) average_ = parameters_.weights().clone();
}

std::vector<PassRecord> Updater::run_passes(Task& task, const UpdateInput& input) {
  std::vector<PassRecord> records;
  for (int64_t i = team_.rank(); i < input.passes; i += team_.size()) {
    const uint64_t seed = hash_combine(static_cast<uint64_t>(input.dropout_seed), static_cast<uint64_t>(i));
    nn::PassExtras extras;
    const nn::ForwardContext context{.training = true,
                                     .dropout_seed = static_cast<int64_t>(seed >> 1),
                                     .recompute = config_.gradient_checkpointing,
                                     .extras = &extras};
    const BatchLoss batch = task.loss(input.first + i, context);
    (extras.loss().defined() ? batch.loss + batch.weight * extras.loss() : batch.loss).backward();
    parameters_.add_gradients();
    PassRecord& record = records.emplace_back(
        PassRecord{.pass = i, .cost = batch.loss.item<double>(), .weight = batch.weight, .sums = extras.sums()});
    for (const auto& [name, value] : batch.notes) record.notes.emplace_back(name, value);
    for (const auto& [name, value] : extras.notes()) record.notes.emplace_back(name, value);
  }
  return records;
}

void Updater::share(at::Tensor tensor) {
  const at::Tensor plain = tensor.contiguous();
  team_.broadcast({static_cast<std::byte*>(plain.mutable_data_ptr()), plain.nbytes()});
  if (!plain.is_same(tensor)) tensor.copy_(plain);
}

void Updater::share_state() {
  const torch::NoGradGuard no_grad;
  share(parameters_.weights());
  for (const auto& [name, tensor] : state_of(optimizer_, parameters_)) share(tensor);
  if (averages()) share(average_);
  for (const auto& [name, buffer] : nn::buffers_of(module_)) share(buffer);
  parameters_.refresh();
}

UpdateResult Updater::update(Task& task, const UpdateInput& input) {
  UpdateResult result;
  parameters_.clear_gradients();
  const std::vector<PassRecord> records = gathered(team_, run_passes(task, input));
  nn::UpdateSums sums;
  for (const PassRecord& record : records) {
    sums.add(record.sums);
    result.cost += record.cost;
    result.weight += record.weight;
    for (const auto& [name, value] : record.notes) result.notes.add(name, value, record.weight);
  }
  const torch::NoGradGuard no_grad;
  at::Tensor& gradients = parameters_.gradients();
  team_.sum({gradients.mutable_data_ptr<float>(), team_.size() > 1 ? static_cast<size_t>(gradients.numel()) : 0});
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
  // A process without a pass in this update could not apply the sums.
  if (input.passes < team_.size())
    for (const auto& [name, buffer] : nn::buffers_of(module_)) share(buffer);
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
