#include "fovea/tasks/translation/test_task.h"

#include <ATen/Functions.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cmath>
#include <limits>
#include <new>
#include <string>

#include "fovea/nn/checkpoint_module.h"
#include "fovea/ops/step.h"
#include "fovea/tasks/translation/batch.h"
#include "fovea/tasks/translation/training_data.h"
#include "fovea/train/updater.h"

namespace fovea::translation::updater_test {
namespace {

struct Setting {
  TestTask task;
  TrainingData data;
  Setting() : data(load_training_data(task.train, task.data, task.model)) {
    task.model.transformer_dropout = 0;
    task.model = with_vocabularies(task.model, data);
    task.train.clip_norm = 0;
  }
  nn::Model model() const { return nn::Model(task.model, 1); }
};

// The given batches of the corpus as an epoch, for a model made by the setting.
class FixedBatches final : public train::Task {
 public:
  FixedBatches(const Setting& setting, nn::Model model, std::vector<data::Batch> batches)
      : setting_(setting), model_(std::move(model)), batches_(std::move(batches)) {
    parts_.module = model_.ptr();
  }
  std::vector<int64_t> begin_epoch(int64_t) override { return std::vector<int64_t>(batches_.size(), 1); }
  train::BatchLoss loss(int64_t batch, const nn::ForwardContext& context) override {
    const ModelBatch inputs(setting_.data.train->pack(batches_[batch], setting_.data.target_vocab.eos()), at::kCPU);
    const ops::CrossEntropy cost = ops::cross_entropy(forward(model_, inputs, context), model_->output_layer(),
                                                      inputs.target_outputs, setting_.task.data.label_smoothing);
    return {cost.loss, static_cast<double>(inputs.target_tokens())};
  }
  std::vector<double> validate(const std::vector<std::string>&) override { return {}; }

 private:
  const Setting& setting_;
  nn::Model model_;
  std::vector<data::Batch> batches_;
};

// A model with its updater.
struct Trained {
  nn::Model model;
  train::Updater updater;
  const Setting& setting;
  Trained(const TrainConfig& config, const Setting& of)
      : model(of.model()), updater(config, *model, at::kCPU), setting(of) {}
  train::UpdateResult update(const std::vector<data::Batch>& batches, int64_t update) {
    FixedBatches task(setting, model, batches);
    return updater.update(
        task, {.passes = std::ssize(batches), .update = update, .dropout_seed = update, .learn_rate = 0.01});
  }
};

nn::NamedTensors weights_of(const train::Updater& updater) {
  nn::Checkpoint checkpoint;
  updater.store(checkpoint);
  nn::NamedTensors copies;
  for (const auto& [name, tensor] : checkpoint.model) copies[name] = tensor.clone();
  return copies;
}

double largest_difference(const nn::NamedTensors& a, const nn::NamedTensors& b) {
  double largest = 0;
  for (const auto& [name, tensor] : a) largest = std::max(largest, (tensor - b.at(name)).abs().max().item<double>());
  return largest;
}

// Kingma and Ba 2015, algorithm 1, in double, on gradients of a model whose parameters lie where they like.
TEST(Updater, IsAdamOnTheMeanGradientOfTheTargetTokens) {
  const Setting setting;
  Trained updater(setting.task.train, setting);
  nn::Model plain = setting.model();
  nn::NamedTensors mean, variance;
  for (int64_t update = 1; update <= 3; ++update) {
    const std::vector<data::Batch> batches = {{update, update + 1, 7}};
    const train::UpdateResult result = updater.update(batches, update);
    ASSERT_TRUE(result.made);
    const ModelBatch batch(setting.data.train->pack(batches[0], setting.data.target_vocab.eos()), at::kCPU);
    plain->zero_grad();
    const at::Tensor hidden = forward(plain, batch, {.training = true, .dropout_seed = 0});
    ops::cross_entropy(hidden, plain->output_layer(), batch.target_outputs, setting.task.data.label_smoothing)
        .loss.backward();
    const torch::NoGradGuard no_grad;
    double squares = 0;
    for (auto& [name, parameter] : nn::parameters_of(*plain)) {
      const at::Tensor gradient = parameter.grad().to(at::kDouble) / static_cast<double>(batch.target_tokens());
      squares += gradient.square().sum().item<double>();
      at::Tensor& m = mean.try_emplace(name, at::zeros_like(gradient)).first->second;
      at::Tensor& v = variance.try_emplace(name, at::zeros_like(gradient)).first->second;
      m = 0.9 * m + 0.1 * gradient;
      v = 0.98 * v + 0.02 * gradient.square();
      const auto t = static_cast<double>(update);
      parameter.sub_(0.01 * (m / (1 - std::pow(0.9, t))) / ((v / (1 - std::pow(0.98, t))).sqrt() + 1e-9));
    }
    // The gradients are float32, with 24 bits, after sums over some dozen tokens.
    EXPECT_NEAR(result.gradient_norm, std::sqrt(squares), 1e-5 * std::sqrt(squares));
    // If a gradient is 0 except for rounding, Adam still makes a step of the learning rate's size in a random direction
    // (the keys' biases, to which softmax is blind): gradients up to 1e-6 all over, or 1e-5 in one place, do not count.
    // Elsewhere the difference is float32's, relative to the gradient, in steps of 0.01.
    nn::NamedTensors ours = weights_of(updater.updater);
    std::erase_if(ours,
                  [&](const auto& item) { return variance.at(item.first).max().template item<double>() < 1e-12; });
    EXPECT_GT(ours.size(), mean.size() / 2);
    for (const auto& [name, tensor] : ours) {
      const at::Tensor certain = variance.at(name).sqrt() > 1e-5;
      const at::Tensor difference = (tensor - nn::parameters_of(*plain).at(name)).abs() * certain;
      EXPECT_LT(difference.max().item<double>(), 1e-4) << name << ", update " << update;
    }
  }
}

TEST(Updater, SumsTheGradientsOfItsBatches) {
  const Setting setting;
  for (const char* precision : {"float32", "bfloat16"}) {
    TrainConfig config = setting.task.train;
    config.precision = precision;
    Trained together(config, setting), apart(config, setting);
    const std::vector<data::Batch> one = {{1, 2, 3, 4}}, two = {{1, 2}, {3, 4}};
    const train::UpdateResult a = together.update(one, 1), b = apart.update(two, 1);
    EXPECT_EQ(a.weight, b.weight);
    // bfloat16 has 8 bits: an error of 2^-8 in each rounded value, of which the norm averages thousands. float32 has
    // 24, after sums over some dozen tokens.
    const double tolerance = std::string(precision) == "float32" ? 1e-5 : 1.0 / 256;
    EXPECT_NEAR(a.cost, b.cost, tolerance * a.cost) << precision;
    EXPECT_NEAR(a.gradient_norm, b.gradient_norm, tolerance * a.gradient_norm) << precision;
  }
}

TEST(Updater, LeavesEverythingAsItWasWhenTheGradientIsNotFinite) {
  const Setting setting;
  Trained updater(setting.task.train, setting);
  nn::NamedTensors weights = weights_of(updater.updater);
  weights.begin()->second.view({-1})[0] = std::numeric_limits<float>::infinity();
  updater.updater.restore_weights(weights, "test", train::Updater::Coverage::kAll);
  const std::vector<data::Batch> batches = {{1, 2, 3}};
  EXPECT_FALSE(updater.update(batches, 1).made);
  for (const auto& [name, tensor] : weights_of(updater.updater)) EXPECT_TRUE(tensor.equal(weights.at(name))) << name;
}

TEST(Updater, ClipsTheStepByTheNormBeforeClipping) {
  Setting setting;
  setting.task.train.optimizer_params = {0, 0, 1};  // the step is then about the gradient itself
  Trained free(setting.task.train, setting);
  const nn::NamedTensors before = weights_of(free.updater);
  const std::vector<data::Batch> batches = {{1, 2, 3}};
  const double norm = free.update(batches, 1).gradient_norm;
  setting.task.train.clip_norm = norm / 1000;
  Trained clipped(setting.task.train, setting);
  EXPECT_DOUBLE_EQ(clipped.update(batches, 1).gradient_norm, norm);
  // lr g / (|g| + 1) with |g| below 1: at least a hundred times smaller.
  EXPECT_LT(largest_difference(weights_of(clipped.updater), before),
            largest_difference(weights_of(free.updater), before) / 100);
}

TEST(Updater, TheAverageIsSavedAndTheWeightsGoOn) {
  Setting setting;
  setting.task.train.exponential_smoothing = 0.05;
  Trained updater(setting.task.train, setting);
  const Setting plain_setting;
  Trained plain(plain_setting.task.train, plain_setting);
  nn::NamedTensors average = weights_of(plain.updater);
  const std::vector<data::Batch> batches = {{1, 2, 3}};
  for (int64_t update = 1; update <= 4; ++update) {
    updater.update(batches, update);
    plain.update(batches, update);
    const double rate = std::max(0.05, 9.0 / (static_cast<double>(update) + 9.0));
    for (const auto& [name, tensor] : weights_of(plain.updater))
      average[name] = average[name] * (1 - rate) + tensor * rate;
  }
  // Two roundings of float32 in each of four updates, of weights below 2.
  EXPECT_LT(largest_difference(weights_of(updater.updater), average), 4e-6);
  const nn::NamedTensors before = weights_of(updater.updater);
  { const train::AverageInUse in_use(updater.updater); }
  EXPECT_EQ(largest_difference(weights_of(updater.updater), before), 0);
}

class OutOfMemory final : public at::Allocator {
 public:
  at::DataPtr allocate(size_t) override { throw std::bad_alloc(); }
  void copy_data(void* to, const void* from, size_t count) const override { default_copy_data(to, from, count); }
};

// A validation that ran out of memory is unwound in a process that has none left.
TEST(Updater, TheAverageIsPutBackWithoutMemory) {
  for (const char* precision : {"float32", "bfloat16"}) {
    Setting setting;
    setting.task.train.exponential_smoothing = 0.05;
    setting.task.train.precision = precision;
    Trained updater(setting.task.train, setting);
    const nn::Model model = updater.model;
    const std::vector<data::Batch> batches = {{1, 2, 3}};
    for (int64_t update = 1; update <= 4; ++update) updater.update(batches, update);
    const nn::NamedTensors average = weights_of(updater.updater);
    const auto values = [&] {
      nn::NamedTensors copies;
      for (const auto& [name, tensor] : nn::parameters_of(*model)) copies[name] = tensor.to(at::kFloat, false, true);
      return copies;
    };
    const nn::NamedTensors weights = values();
    at::Allocator* const allocator = c10::GetCPUAllocator();
    OutOfMemory none;
    {
      const train::AverageInUse in_use(updater.updater);
      // bfloat16 has 8 bits, and weights are below 2.
      EXPECT_LE(largest_difference(values(), average), std::string(precision) == "float32" ? 0 : 1.0 / 128);
      EXPECT_GT(largest_difference(values(), weights), 0);
      c10::SetCPUAllocator(&none);
    }
    c10::SetCPUAllocator(allocator);
    EXPECT_EQ(largest_difference(values(), weights), 0) << precision;
    EXPECT_EQ(largest_difference(weights_of(updater.updater), average), 0) << precision;
  }
}

}  // namespace
}  // namespace fovea::translation::updater_test
