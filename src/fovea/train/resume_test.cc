#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "fovea/nn/checkpoint.h"
#include "fovea/train/test_task.h"
#include "fovea/train/train.h"

namespace fovea::train {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(Resuming, UnderAnotherSaveFreqKeepsTheLastCheckpoints) {
  TestTask task;
  task.train.save_freq = 5;
  task.train.after_batches = 15;
  run(task);
  task.train.save_freq = 8;
  task.train.after_batches = 16;
  run(task);
  EXPECT_EQ(checkpoints_of(task.train.model),
            "update-00000010 update-00000015 update-00000016 checkpoints/update-00000016");
}

}  // namespace
}  // namespace fovea::train
