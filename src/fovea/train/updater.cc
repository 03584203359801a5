#include "fovea/train/updater.h"

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>

#include "fovea/base/rng.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/pass_extras.h"
#include "fovea/ops/step.h"

namespace fovea::train {
namespace {

constexpr const char* kMean = "mean/";
constexpr const char* kVariance = "variance/";
constexpr const char* kWeights = "weights/";  // in addition to an average

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

void insert_group(nn::NamedTensors& into, const std::string& prefix, const nn::NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) into[prefix + name] = tensor;
}

nn::NamedTensors extract_group(const nn::NamedTensors& from, const std::string& prefix) {
  nn::NamedTensors tensors;
  for (const auto& [name, tensor] : from) {
    if (name.starts_with(prefix)) tensors[name.substr(prefix.size())] = tensor;
  }
  return tensors;
}

Updater::Updater(const TrainConfig& config, torch::nn::Module& module, const at::Device& device)
    : config_(config),
      module_(module),
      parameters_(module, device, config.precision == "bfloat16" ? at::kBFloat16 : at::kFloat),
      mean_(parameters_.zeros()),
      variance_(parameters_.zeros()) {
  if (config.exponential_smoothing > 0) average_ = parameters_.weights().clone();
}

UpdateResult Updater::update(Task& task, const UpdateInput& input) {
  UpdateResult result;
  parameters_.clear_gradients();
  nn::UpdateSums sums;
  for (int64_t i = 0; i < input.passes; ++i) {
    const uint64_t seed = hash_combine(static_cast<uint64_t>(input.dropout_seed), static_cast<uint64_t>(i));
    nn::PassExtras extras;
    nn::ForwardContext context{.training = true, .dropout_seed = static_cast<int64_t>(seed >> 1)};
    context.extras = &extras;
    const BatchLoss batch = task.loss(input.first + i, context);
    (extras.loss().defined() ? batch.loss + batch.weight * extras.loss() : batch.loss).backward();
    sums.add(extras.sums());
    parameters_.add_gradients();
    result.cost += batch.loss.item<double>();
    result.weight += batch.weight;
  }
  const torch::NoGradGuard no_grad;
  const double per_unit = 1.0 / result.weight;
  result.gradient_norm = ops::l2_norm(parameters_.gradients()) * per_unit;
  result.made = std::isfinite(result.cost) && std::isfinite(result.gradient_norm);
  if (!result.made) return result;
  const bool clip = config_.clip_norm > 0 && result.gradient_norm > config_.clip_norm;
  adam(input, clip ? per_unit * config_.clip_norm / result.gradient_norm : per_unit);
  sums.apply();
  return result;
}

void Updater::adam(const UpdateInput& input, double gradient_scale) {
  ops::AdamOptions options;
  options.learn_rate = input.learn_rate;
  options.beta1 = config_.optimizer_params.at(0);
  options.beta2 = config_.optimizer_params.at(1);
  options.eps = config_.optimizer_params.at(2);
  options.step = input.update;
  options.grad_scale = gradient_scale;
  ops::adam_step(
      {.params = parameters_.weights(), .mean = mean_, .variance = variance_, .copy = parameters_.compute_copy()},
      parameters_.gradients(), options);
  if (!averages()) return;
  // The first updates count more, or the average would keep the initial weights for a long time.
  const auto t = static_cast<double>(input.update);
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
  insert_group(checkpoint.optimizer, kMean, parameters_.views(mean_));
  insert_group(checkpoint.optimizer, kVariance, parameters_.views(variance_));
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
  nn::NamedTensors model = checkpoint.model;
  take_buffers(module_, model, origin, Coverage::kAll);
  const nn::NamedTensors raw = extract_group(checkpoint.optimizer, kWeights);
  train::restore(parameters_, parameters_.weights(), raw.empty() ? model : raw, origin);
  parameters_.refresh();
  const torch::NoGradGuard no_grad;
  if (averages()) average_.copy_(parameters_.weights());
  if (averages() && !raw.empty()) train::restore(parameters_, average_, model, origin);
  train::restore(parameters_, mean_, extract_group(checkpoint.optimizer, kMean), origin);
  train::restore(parameters_, variance_, extract_group(checkpoint.optimizer, kVariance), origin);
}

}  // namespace fovea::train
