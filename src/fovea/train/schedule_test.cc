#include "fovea/train/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace fovea::train::schedule_test {
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

// A run of 400 updates, told as epochs or as seconds, falls as one that counts updates.
TEST(Schedule, DecaysFromTheEndOfTheWarmUpWhateverTheLimit) {
  for (const char* decay : {"cosine", "linear"}) {
    TrainConfig batches = config_of(decay);
    batches.after_batches = 400;
    for (int64_t update = 1; update <= 400; ++update) {
      const double share = static_cast<double>(update - 1) / 400, expected = learning_rate(batches, update, {});
      // Some roundings of numbers below 1.
      EXPECT_NEAR(learning_rate(config_of(decay), update, {.epochs = share}), expected, 1e-15) << decay << update;
      EXPECT_NEAR(learning_rate(config_of(decay), update, {.seconds = share}), expected, 1e-15) << decay << update;
    }
    for (const double pace : {0.3, 1.0, 3.0}) {  // of the updates after the warm-up
      const auto rate = [&](int64_t update) {
        const auto after = static_cast<double>(std::max<int64_t>(update - 101, 0));
        const double share =
            std::min(1.0, (static_cast<double>(std::min<int64_t>(update - 1, 100)) + pace * after) / 400);
        return learning_rate(config_of(decay), update, {.seconds = share});
      };
      EXPECT_DOUBLE_EQ(rate(101), 0.4) << decay;
      for (int64_t update = 102; update < 1200; ++update) EXPECT_LE(rate(update), rate(update - 1)) << decay;
      EXPECT_NEAR(rate(1200), 0, 1e-15) << decay;
    }
  }
}

TEST(Schedule, ARunWithinItsWarmUpDoesNotFall) {
  EXPECT_DOUBLE_EQ(learning_rate(config_of("linear"), 50, {.epochs = 0.98}), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(config_of("linear"), 100, {.epochs = 1}), 0.4);
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
}  // namespace fovea::train::schedule_test
