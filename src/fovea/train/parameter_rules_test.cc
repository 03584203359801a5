#include "fovea/nn/parameter_rules.h"

#include <gtest/gtest.h>

#include "fovea/base/test_message.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/train/toy_task.h"
#include "fovea/train/updater.h"

namespace fovea::train::parameter_rules_test {
namespace {

UpdateResult update(Updater& updater, ToyTask& task, int64_t update) {
  return updater.update(task, {.first = 3 * update, .passes = 3, .update = update, .learn_rate = 0.3});
}

TEST(ParameterRules, ClampAfterEveryUpdate) {
  for (const char* precision : {"float32", "bfloat16"}) {
    TrainConfig config;
    config.precision = precision;
    const nn::ParameterRules rules = {{"matrix", {.low = -0.5, .high = 0.3}}, {"vector", {.high = 0}}};
    ToyTask task(rules), plain_task;
    Updater updater(config, task.module(), at::kCPU, rules), plain(config, plain_task.module(), at::kCPU);
    update(updater, task, 1);
    update(plain, plain_task, 1);
    nn::Checkpoint clamped, free;
    updater.store(clamped);
    plain.store(free);
    EXPECT_TRUE(clamped.model.at("matrix").equal(free.model.at("matrix").clamp(-0.5, 0.3))) << precision;
    EXPECT_TRUE(clamped.model.at("vector").equal(free.model.at("vector").clamp_max(0))) << precision;
    EXPECT_TRUE(clamped.model.at("cube").equal(free.model.at("cube"))) << precision;
    for (const auto& item : task.module().named_parameters()) {
      const at::Tensor& value = item.value();
      EXPECT_TRUE(value.detach().equal(clamped.model.at(item.key()).to(value.scalar_type()))) << "the model's copy";
    }
  }
}

// Without an average the weights are the model; with one it is the model's that is used in validation.
TEST(ParameterRules, Float32StaysSoInBfloat16) {
  TrainConfig config;
  config.precision = "bfloat16";
  config.exponential_smoothing = 0.1;
  const nn::ParameterRules rules = {{"matrix", {.float32 = true}}, {"scalar", {.float32 = true}}};
  ToyTask task(rules), float_task;
  Updater updater(config, task.module(), at::kCPU, rules);
  config.precision = "float32";
  Updater plain(config, float_task.module(), at::kCPU);
  const auto parameter = [&](const char* name) { return task.module().named_parameters()[name].detach(); };
  EXPECT_EQ(parameter("matrix").scalar_type(), at::kFloat);
  EXPECT_EQ(parameter("vector").scalar_type(), at::kBFloat16);
  EXPECT_EQ(task.module().named_buffers()["buffer"].scalar_type(), at::kFloat);
  for (int64_t t = 1; t <= 3; ++t) {
    update(updater, task, t);
    update(plain, float_task, t);
  }
  // bfloat16 holds the gradients, which are summed in float32, so both precisions have the same.
  for (const char* name : {"matrix", "scalar"}) {
    const auto own = [&] { return float_task.module().named_parameters()[name].detach(); };
    EXPECT_TRUE(parameter(name).equal(own())) << name;
    const AverageInUse average(updater), plain_average(plain);
    EXPECT_TRUE(parameter(name).equal(own())) << name << ", average";
  }
}

TEST(ParameterRules, HoldInInference) {
  ToyModule module;
  nn::move_module(module, at::kCPU, at::kBFloat16, {{"matrix", {.float32 = true}}});
  const ToyModule before;
  for (const auto& item : module.named_parameters()) {
    EXPECT_EQ(item.value().scalar_type(), item.key() == "matrix" ? at::kFloat : at::kBFloat16) << item.key();
    // bfloat16 holds the numbers of a toy.
    EXPECT_TRUE(item.value().to(at::kFloat).equal(before.named_parameters()[item.key()])) << item.key();
  }
  EXPECT_EQ(module.named_buffers()["buffer"].scalar_type(), at::kFloat);
}

TEST(ParameterRules, NameParameters) {
  ToyTask task;
  EXPECT_EQ(message_of([&] {
              Updater({}, task.module(), at::kCPU, {{"matrices", {}}});
            }),
            "the task has a rule for 'matrices', which is not a parameter of the model");
}

TEST(Notes, AreMeansOverTheBatchesOfAnUpdate) {
  ToyTask task;
  const TrainConfig config;
  Updater updater(config, task.module(), at::kCPU);
  using Means = std::vector<std::pair<std::string, double>>;
  EXPECT_EQ(update(updater, task, 2).notes.means(), (Means{{"batch", 7}}));
  Notes notes, more;
  notes.add("b", 1, 3);
  notes.add("a", 5, 1);
  more.add("b", 3, 1);
  notes.add(more);
  EXPECT_EQ(notes.means(), (Means{{"b", 1.5}, {"a", 5}}));
}

}  // namespace
}  // namespace fovea::train::parameter_rules_test
