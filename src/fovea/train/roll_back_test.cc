#include "fovea/train/roll_back.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cmath>
#include <functional>
#include <limits>

#include "fovea/base/test_message.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_run.h"
#include "fovea/train/test_training.h"

namespace fovea::train::roll_back_test {
namespace {

using ::testing::HasSubstr;

struct Vector final : torch::nn::Module {
  Vector() { register_parameter("w", at::arange(7, at::kFloat)); }
};

// Each batch pulls the weights towards another point; `added` is added to its loss, and may be NaN. With a shift, batch
// b stands where batch b + shift stands without.
class PullTask final : public Task {
 public:
  PullTask(std::function<double(int64_t batch)> added, int64_t shift) : added_(std::move(added)), shift_(shift) {
    parts_ = {.module = std::make_shared<Vector>(), .fingerprint = "pull"};
    parts_.identity.task = "pull";
  }
  std::vector<int64_t> begin_epoch(int64_t /*epoch*/) override { return std::vector<int64_t>(100, 1); }
  BatchLoss loss(int64_t batch, const nn::ForwardContext& /*context*/) override {
    const at::Tensor w = module().named_parameters()["w"];
    return {(w - at::arange(7).mul(batch + shift_).sin()).square().sum() + added_(batch), 1};
  }
  std::vector<double> validate(const std::vector<std::string>& /*names*/) override { return {}; }

 private:
  std::function<double(int64_t)> added_;
  int64_t shift_;
};

TrainConfig config_of(const TestFolder& folder, const std::string& name) {
  TrainConfig config;
  config.model = (folder.path() / name).string();
  config.task = "pull";
  config.learn_rate = 0.01;
  config.lr_decay = "none";
  config.lr_warmup = 0;
  config.disp_freq = 2;
  config.save_freq = 4;
  config.cpu_threads = 1;
  config.max_rollbacks = 2;
  config.after_batches = 20;
  return config;
}

void train(const TrainConfig& config, const std::function<double(int64_t batch)>& added, int64_t shift = 0) {
  run_training({.config = config, .load = [&](const TrainConfig&, int64_t) -> std::unique_ptr<Task> {
                  return std::make_unique<PullTask>(added, shift);
                }});
}

double no_trouble(int64_t /*batch*/) { return 0; }
// Five bad batches in a row.
double nan_in_the_middle(int64_t batch) {
  return batch >= 9 && batch < 14 ? std::numeric_limits<double>::quiet_NaN() : 0;
}

std::string progress_of(const TrainConfig& config, const std::string& name) {
  const std::string path = config.model + "/last/" + nn::kProgressFile;
  return nn::parse_map(read_file(path), path)[name];
}
std::string weights_of(const TrainConfig& config) { return read_file(config.model + "/last/" + nn::kModelFile); }

TEST(RollBack, GoesOnAfterTheBadBatchesWithHalfOfTheRate) {
  const TestFolder folder;
  const TrainConfig config = config_of(folder, "run");
  train(config, nan_in_the_middle);
  EXPECT_EQ(progress_of(config, "updates"), "20");
  EXPECT_EQ(progress_of(config, "roll-backs"), "1");
  EXPECT_EQ(progress_of(config, "batch"), "26");   // 8 before, 12 from the 14th on
  EXPECT_EQ(progress_of(config, "skipped"), "6");  // the bad ones, and the one after the checkpoint

  // A roll-back by hand: 8 updates, then the later batches in their places at half of the rate.
  TrainConfig by_hand = config_of(folder, "by-hand");
  by_hand.after_batches = 8;
  train(by_hand, no_trouble);
  by_hand.after_batches = 20;
  by_hand.learn_rate /= 2;
  train(by_hand, no_trouble, 6);
  EXPECT_EQ(weights_of(config), weights_of(by_hand));
}

TEST(RollBack, ARunThatResumesIsTheRunThatNeverStopped) {
  const TestFolder folder;
  const TrainConfig whole = config_of(folder, "whole");
  train(whole, nan_in_the_middle);
  for (const int64_t stop : {7, 10, 13}) {
    TrainConfig parts = config_of(folder, "parts" + std::to_string(stop));
    parts.after_batches = stop;
    train(parts, nan_in_the_middle);
    parts.after_batches = 20;
    train(parts, nan_in_the_middle);
    EXPECT_EQ(bytes_of(parts.model), bytes_of(whole.model)) << "stopped after " << stop;
  }
}

// A cost that rises and stays there, without being NaN.
TEST(RollBack, GoesBackToBeforeTheCostRose) {
  const TestFolder folder;
  const TrainConfig config = config_of(folder, "run");
  train(config, [](int64_t batch) { return batch >= 12 && batch < 18 ? 1000.0 : 0; });
  EXPECT_EQ(progress_of(config, "roll-backs"), "1");
  EXPECT_EQ(progress_of(config, "batch"), "26");  // 12 sound ones, then 8 from the 18th on
  EXPECT_EQ(progress_of(config, "watch.high"), "0");
}

// The only sound checkpoint is not pruned for checkpoints that were saved in the trouble.
TEST(RollBack, KeepsASoundCheckpointThroughTheTrouble) {
  const TestFolder folder;
  TrainConfig config = config_of(folder, "run");
  config.keep_last = 1;
  config.save_freq = 1;
  train(config, [](int64_t batch) { return batch >= 12 && batch < 18 ? 1000.0 : 0; });
  EXPECT_EQ(progress_of(config, "batch"), "26");
  EXPECT_EQ(nn::list_checkpoints(config.model).size(), 1U);
}

TEST(RollBack, BeginsAgainWithoutACheckpoint) {
  const TestFolder folder;
  TrainConfig config = config_of(folder, "run");
  config.save_freq = 100;
  train(config, [](int64_t batch) { return batch < 5 ? std::numeric_limits<double>::infinity() : 0; });
  EXPECT_EQ(progress_of(config, "roll-backs"), "1");
  EXPECT_EQ(progress_of(config, "batch"), "25");
}

TEST(RollBack, EndsAfterTheLastOne) {
  const TestFolder folder;
  const auto from_ninth = [](int64_t batch) { return batch >= 9 ? std::numeric_limits<double>::quiet_NaN() : 0; };
  TrainConfig config = config_of(folder, "run");
  EXPECT_THAT(message_of([&] { train(config, from_ninth); }),
              HasSubstr("training diverged at update 9 after 2 roll-backs: the loss (nan)"));
  EXPECT_EQ(progress_of(config, "updates"), "8");
  config = config_of(folder, "none");
  config.max_rollbacks = 0;
  EXPECT_THAT(message_of([&] { train(config, from_ninth); }),
              HasSubstr("training diverged at update 10: the loss (nan)"));
  EXPECT_EQ(progress_of(config, "watch.cost"), "");
}

TEST(CostWatch, TakesThreeHighWindowsInARow) {
  CostWatch watch;
  const auto window = [&](double cost, int64_t updates) {
    watch.add(3 * cost, 3);
    watch.end_window(updates);
    return watch.has_diverged();
  };
  EXPECT_FALSE(window(8, 10));
  EXPECT_FALSE(window(11.9, 20));  // not above 8 by half
  EXPECT_NEAR(watch.mean, 8 + 0.2 * 3.9, 1e-12);
  EXPECT_EQ(watch.sound, 20);
  EXPECT_FALSE(window(14, 30));
  EXPECT_FALSE(window(15, 40));
  EXPECT_FALSE(window(9, 50));  // the trouble is over
  EXPECT_EQ(watch.sound, 50);
  EXPECT_FALSE(window(20, 60));
  EXPECT_FALSE(window(20, 70));
  EXPECT_TRUE(window(20, 80));
  EXPECT_EQ(watch.sound, 50);
}

// The cost of a model that knows its data by heart moves by multiples of itself.
TEST(CostWatch, LeavesSmallCostsAlone) {
  CostWatch watch;
  for (int64_t i = 1; i < 10; ++i) {
    watch.add(i % 2 == 0 ? 0.4 : 0.01, 1);
    watch.end_window(i);
    EXPECT_EQ(watch.high, 0);
  }
}

}  // namespace
}  // namespace fovea::train::roll_back_test
