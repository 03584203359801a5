#include "fovea/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fovea/base/test_message.h"

namespace fovea::train {
namespace {

TrainConfig config_of(const std::string& decay) {
  TrainConfig config;
  config.lr_decay = decay;
  config.learn_rate = 0.4;
  config.lr_warmup = 100;
  return config;
}

TEST(Schedule, WarmsUpLinearlyToTheHighestRate) {
  for (const char* decay : {"inv-sqrt", "cosine", "linear", "none"}) {
    TrainConfig config = config_of(decay);
    config.after_batches = 1000;
    EXPECT_DOUBLE_EQ(learning_rate(config, 1, {}), 0.004) << decay;
    EXPECT_DOUBLE_EQ(learning_rate(config, 50, {}), 0.2) << decay;
    EXPECT_DOUBLE_EQ(learning_rate(config, 100, {}), 0.4) << decay;
  }
}

TEST(Schedule, DecaysAsNamed) {
  EXPECT_DOUBLE_EQ(learning_rate(config_of("inv-sqrt"), 400, {}), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(config_of("none"), 400, {}), 0.4);
  TrainConfig linear = config_of("linear"), cosine = config_of("cosine");
  linear.after_batches = cosine.after_batches = 1100;
  EXPECT_DOUBLE_EQ(learning_rate(linear, 101, {}), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(linear, 601, {}), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 601, {}), 0.2);
  // Near 0.34, where double steps by 6e-17: some roundings.
  EXPECT_NEAR(learning_rate(cosine, 351, {}), 0.2 * (1 + std::sqrt(0.5)), 1e-15);
  EXPECT_GT(learning_rate(linear, 1100, {}), 0) << "the last update does something";
}

TEST(Schedule, EndsWithTheFirstLimitThatIsReached) {
  TrainConfig config = config_of("linear");
  config.lr_warmup = 0;
  config.after_batches = 1000;
  EXPECT_DOUBLE_EQ(learning_rate(config, 101, {.seconds = 0.75}), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(config, 101, {.epochs = 0.5, .seconds = 0.25}), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(config, 101, {.seconds = 1.5}), 0);
}

}  // namespace
}  // namespace fovea::train
