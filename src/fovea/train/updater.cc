#include "fovea/train/updater.h"

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>

#include "fovea/base/rng.h"
#include "fovea/ops/step.h"
#include "fovea/train/model_batch.h"

namespace fovea::train {
namespace {

constexpr const char* kMean = "mean/";
constexpr const char* kVariance = "variance/";
constexpr const char* kWeights = "weights/";  // beside an average

void insert(nn::NamedTensors& into, const std::string& prefix, const nn::NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) into[prefix + name] = tensor;
}

nn::NamedTensors extract(const nn::NamedTensors& from, const std::string& prefix) {
  nn::NamedTensors tensors;
  for (const auto& [name, tensor] : from) {
    if (name.starts_with(prefix)) tensors[name.substr(prefix.size())] = tensor;
  }
  return tensors;
}

}  // namespace

Updater::Updater(const TrainConfig& config, const nn::Transformer& model, const at::Device& device)
    : config_(config),
      model_(model),
      device_(device),
      parameters_(*model_, device, config.precision == "bfloat16" ? at::kBFloat16 : at::kFloat),
      mean_(parameters_.zeros()),
      variance_(parameters_.zeros()) {
  if (config.exponential_smoothing > 0) average_ = parameters_.weights().clone();
}

UpdateResult Updater::update(const UpdateInput& input) {
  UpdateResult result;
  parameters_.clear_gradients();
  for (size_t i = 0; i < input.batches.size(); ++i) {
    const ModelBatch batch(input.corpus, input.batches[i], input.target_eos, device_);
    const auto seed = static_cast<int64_t>(hash_combine(static_cast<uint64_t>(input.dropout_seed), i) >> 1);
    const at::Tensor hidden = forward(model_, batch, {.training = true, .dropout_seed = seed});
    const ops::CrossEntropy cost = ops::cross_entropy(hidden, model_->output_weight(), model_->output_bias(),
                                                      batch.target_outputs, config_.label_smoothing);
    cost.loss.backward();
    parameters_.add_gradients();
    result.cost += cost.loss.item<double>();
    result.target_tokens += batch.target_tokens();
  }
  const torch::NoGradGuard no_grad;
  const double per_token = 1.0 / static_cast<double>(result.target_tokens);
  result.gradient_norm = ops::l2_norm(parameters_.gradients()) * per_token;
  result.made = std::isfinite(result.cost) && std::isfinite(result.gradient_norm);
  if (!result.made) return result;
  const bool clip = config_.clip_norm > 0 && result.gradient_norm > config_.clip_norm;
  adam(input, clip ? per_token * config_.clip_norm / result.gradient_norm : per_token);
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
  insert(checkpoint.optimizer, kMean, parameters_.views(mean_));
  insert(checkpoint.optimizer, kVariance, parameters_.views(variance_));
  if (averages()) insert(checkpoint.optimizer, kWeights, parameters_.views(parameters_.weights()));
}

void Updater::restore_weights(const nn::NamedTensors& weights, const std::string& source) {
  train::restore(parameters_, parameters_.weights(), weights, source);
  parameters_.refresh();
  const torch::NoGradGuard no_grad;
  if (averages()) average_.copy_(parameters_.weights());
}

void Updater::restore(const nn::Checkpoint& checkpoint, const std::string& source) {
  const nn::NamedTensors raw = extract(checkpoint.optimizer, kWeights);
  restore_weights(raw.empty() ? checkpoint.model : raw, source);
  if (averages() && !raw.empty()) train::restore(parameters_, average_, checkpoint.model, source);
  train::restore(parameters_, mean_, extract(checkpoint.optimizer, kMean), source);
  train::restore(parameters_, variance_, extract(checkpoint.optimizer, kVariance), source);
}

}  // namespace fovea::train
