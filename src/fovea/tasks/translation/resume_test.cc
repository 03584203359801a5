#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <new>

#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/tasks/translation/test_task.h"

namespace fovea::translation::resume_test {
namespace {
namespace fs = std::filesystem;

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

TEST(Resuming, FromBeforeADamagedCheckpointLastNamesAWholeOne) {
  TestTask task;
  task.train.save_freq = 5;
  task.train.after_batches = 15;
  run(task);
  const fs::path last = fs::path(task.train.model) / "last";
  write_file(last / "model.safetensors", "");
  task.train.after_batches = 10;  // none is left
  run(task);
  EXPECT_EQ(fs::read_symlink(last), "checkpoints/update-00000010");
  EXPECT_EQ(nn::load_checkpoint(task.train.model, nn::Load::kModel).folder.filename(), "update-00000010");
}

// A run whose validation at update 8 throws resumes there once it does not, and ends like one that never threw.
void expect_error_in_validation_costs_nothing(TestTask& task, const std::function<void()>& fail) {
  task.with_validation();
  task.train.valid_metrics = {"bleu", "ce-mean-words"};
  Hooks good, bad;
  good.translations = [] { return 1.0; };
  run(task, good);
  const std::string expected = bytes_of(task.train.model), files = checkpoints_of(task.train.model);
  task.train.model = task.folder / "failed";
  int validations = 0;
  bad.translations = [&] {
    if (++validations == 2) fail();
    return 1.0;
  };
  EXPECT_ANY_THROW(run(task, bad));
  log::configure({});
  EXPECT_EQ(fs::read_symlink(fs::path(task.train.model) / "last").filename(), "update-00000008");
  run(task, good);
  EXPECT_EQ(bytes_of(task.train.model), expected);
  EXPECT_EQ(checkpoints_of(task.train.model), files);
}

TEST(Resuming, AfterAnErrorInAValidationLosesNoUpdate) {
  for (const int64_t save_freq : {2, 3, 1000}) {
    TestTask task;
    task.train.save_freq = save_freq;
    task.train.after_batches = 15;
    expect_error_in_validation_costs_nothing(task, [] { throw std::bad_alloc(); });
  }
}

// The translations do not improve, so that nothing but the end saves.
TEST(Resuming, AfterAnErrorInTheLastValidationStoresItsResult) {
  TestTask task;
  task.train.after_batches = 8;
  expect_error_in_validation_costs_nothing(task, [] { throw std::bad_alloc(); });
}

// For a run that goes on, whose state knows nothing of the validation at the end.
TEST(Resuming, FindsTheBestCheckpointFromBeforeAnEndOutOfTurn) {
  TestTask task;
  task.with_validation();
  task.train.keep_last = 1;
  task.train.after_batches = 6;
  run(task);
  EXPECT_EQ(fs::read_symlink(fs::path(task.train.model) / "best"), "checkpoints/update-00000006");
  EXPECT_EQ(checkpoints_of(task.train.model), "update-00000004 update-00000006 checkpoints/update-00000006");
}

// The best values have changed by then.
TEST(Resuming, AfterALogThatCouldNotBeWrittenInAValidationLosesNoUpdate) {
  TestTask task;
  task.train.after_batches = 15;
  expect_error_in_validation_costs_nothing(
      task, [] { log::configure({.format = log::Format::kText, .level = log::Level::kInfo, .file = "/dev/full"}); });
}

}  // namespace
}  // namespace fovea::translation::resume_test
