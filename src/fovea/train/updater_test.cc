#include "fovea/train/test_task.h"

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
#include "fovea/train/model_batch.h"
#include "fovea/train/setup.h"
#include "fovea/train/updater.h"

namespace fovea::train {
namespace {

struct Setting {
  TestTask task;
  TrainingData data;
  Setting() : data(load_training_data(task.train)) {
    task.model.transformer_dropout = 0;
    task.model = with_vocabularies(task.model, data);
    task.train.clip_norm = 0;
  }
  nn::Transformer model() const { return nn::Transformer(task.model, 1); }
  UpdateInput input(std::span<const data::Batch> batches, int64_t update) const {
    return {.corpus = data.train,
            .batches = batches,
            .target_eos = data.target_vocab.eos(),
            .update = update,
            .dropout_seed = update,
            .learn_rate = 0.01};
  }
};

nn::NamedTensors weights_of(const Updater& updater) {
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
  Updater updater(setting.task.train, setting.model(), at::kCPU);
  nn::Transformer plain = setting.model();
  nn::NamedTensors mean, variance;
  for (int64_t update = 1; update <= 3; ++update) {
    const std::vector<data::Batch> batches = {{update, update + 1, 7}};
    const UpdateResult result = updater.update(setting.input(batches, update));
    ASSERT_TRUE(result.made);
    const ModelBatch batch(setting.data.train, batches[0], setting.data.target_vocab.eos(), at::kCPU);
    plain->zero_grad();
    const at::Tensor hidden = forward(plain, batch, {.training = true, .dropout_seed = 0});
    ops::cross_entropy(hidden, plain->output_weight(), plain->output_bias(), batch.target_outputs,
                       setting.task.train.label_smoothing)
        .loss.backward();
    const torch::NoGradGuard no_grad;
    double squares = 0;
    for (auto& [name, parameter] : nn::parameters_of(*plain)) {
      const at::Tensor gradient =
          parameter.grad().to(at::kDouble) /
          static_cast<double>(setting.data.train.target_length(update) + setting.data.train.target_length(update + 1) +
                              setting.data.train.target_length(7));
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
    // Where a gradient is 0 but for rounding, Adam still makes a step of the learning rate's size in a random direction
    // (the keys' biases, to which softmax is blind): gradients up to 1e-6 all over, or 1e-5 in one place, do not count.
    // Elsewhere the difference is float32's, relative to the gradient, in steps of 0.01.
    nn::NamedTensors ours = weights_of(updater);
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
    Updater together(config, setting.model(), at::kCPU), apart(config, setting.model(), at::kCPU);
    const std::vector<data::Batch> one = {{1, 2, 3, 4}}, two = {{1, 2}, {3, 4}};
    const UpdateResult a = together.update(setting.input(one, 1)), b = apart.update(setting.input(two, 1));
    EXPECT_EQ(a.target_tokens, b.target_tokens);
    // bfloat16 has 8 bits: an error of 2^-8 in each rounded value, of which the norm averages thousands. float32 has
    // 24, after sums over some dozen tokens.
    const double tolerance = std::string(precision) == "float32" ? 1e-5 : 1.0 / 256;
    EXPECT_NEAR(a.cost, b.cost, tolerance * a.cost) << precision;
    EXPECT_NEAR(a.gradient_norm, b.gradient_norm, tolerance * a.gradient_norm) << precision;
  }
}

TEST(Updater, LeavesEverythingAsItWasWhenTheGradientIsNotFinite) {
  const Setting setting;
  Updater updater(setting.task.train, setting.model(), at::kCPU);
  nn::NamedTensors weights = weights_of(updater);
  weights.begin()->second.view({-1})[0] = std::numeric_limits<float>::infinity();
  updater.restore_weights(weights, "test");
  const std::vector<data::Batch> batches = {{1, 2, 3}};
  EXPECT_FALSE(updater.update(setting.input(batches, 1)).made);
  for (const auto& [name, tensor] : weights_of(updater)) EXPECT_TRUE(tensor.equal(weights.at(name))) << name;
}

TEST(Updater, ClipsTheStepByTheNormBeforeClipping) {
  Setting setting;
  setting.task.train.optimizer_params = {0, 0, 1};  // the step is then about the gradient itself
  Updater free(setting.task.train, setting.model(), at::kCPU);
  const nn::NamedTensors before = weights_of(free);
  const std::vector<data::Batch> batches = {{1, 2, 3}};
  const double norm = free.update(setting.input(batches, 1)).gradient_norm;
  setting.task.train.clip_norm = norm / 1000;
  Updater clipped(setting.task.train, setting.model(), at::kCPU);
  EXPECT_DOUBLE_EQ(clipped.update(setting.input(batches, 1)).gradient_norm, norm);
  // lr g / (|g| + 1) with |g| below 1: at least a hundred times smaller.
  EXPECT_LT(largest_difference(weights_of(clipped), before), largest_difference(weights_of(free), before) / 100);
}

TEST(Updater, TheAverageIsSavedAndTheWeightsGoOn) {
  Setting setting;
  setting.task.train.exponential_smoothing = 0.05;
  Updater updater(setting.task.train, setting.model(), at::kCPU);
  const Setting plain_setting;
  Updater plain(plain_setting.task.train, plain_setting.model(), at::kCPU);
  nn::NamedTensors average = weights_of(plain);
  const std::vector<data::Batch> batches = {{1, 2, 3}};
  for (int64_t update = 1; update <= 4; ++update) {
    updater.update(setting.input(batches, update));
    plain.update(plain_setting.input(batches, update));
    const double rate = std::max(0.05, 9.0 / (static_cast<double>(update) + 9.0));
    for (const auto& [name, tensor] : weights_of(plain)) average[name] = average[name] * (1 - rate) + tensor * rate;
  }
  // Two roundings of float32 in each of four updates, of weights below 2.
  EXPECT_LT(largest_difference(weights_of(updater), average), 4e-6);
  const nn::NamedTensors before = weights_of(updater);
  { const AverageInUse in_use(updater); }
  EXPECT_EQ(largest_difference(weights_of(updater), before), 0);
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
    const nn::Transformer model = setting.model();
    Updater updater(setting.task.train, model, at::kCPU);
    const std::vector<data::Batch> batches = {{1, 2, 3}};
    for (int64_t update = 1; update <= 4; ++update) updater.update(setting.input(batches, update));
    const nn::NamedTensors average = weights_of(updater);
    const auto values = [&] {
      nn::NamedTensors copies;
      for (const auto& [name, tensor] : nn::parameters_of(*model)) copies[name] = tensor.to(at::kFloat, false, true);
      return copies;
    };
    const nn::NamedTensors weights = values();
    at::Allocator* const allocator = c10::GetCPUAllocator();
    OutOfMemory none;
    {
      const AverageInUse in_use(updater);
      // bfloat16 has 8 bits, and weights are below 2.
      EXPECT_LE(largest_difference(values(), average), std::string(precision) == "float32" ? 0 : 1.0 / 128);
      EXPECT_GT(largest_difference(values(), weights), 0);
      c10::SetCPUAllocator(&none);
    }
    c10::SetCPUAllocator(allocator);
    EXPECT_EQ(largest_difference(values(), weights), 0) << precision;
    EXPECT_EQ(largest_difference(weights_of(updater), average), 0) << precision;
  }
}

}  // namespace
}  // namespace fovea::train
