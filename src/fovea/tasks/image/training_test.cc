#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "fovea/base/test_message.h"
#include "fovea/tasks/image/test_run.h"

namespace fovea::image::training_test {
namespace {

using testing::HasSubstr;

std::vector<train::Variant<TestRun>> variants() {
  return {{"plain", [](TestRun&) {}},
          {"crop, flip",
           [](TestRun& run) {
             run.model.crop = {3, 2};
             run.data.flip = true;
           }},
          {"optimizer-delay", [](TestRun& run) { run.train.optimizer_delay = 2; }},
          {"bfloat16", [](TestRun& run) { run.train.precision = "bfloat16"; }},
          {"validation", [](TestRun& run) { run.with_validation(); }},
          {"grey",
           [](TestRun& run) {
             run.data.train_sets = {write_images(run.folder / "grey", 9, {6, 3, 1}, 1)};
           }},
          {"checkpointing, patterns", [](TestRun& run) {
             run.train.gradient_checkpointing = true;
             run.model.attention = "1*local(7);1*strided(5)";
           }}};
}

// Stopped in the middle of the first epoch and again in that of a later one.
TEST(ImageTraining, ResumedIsBitForBitTheRunThatNeverStopped) {
  train::expect_exact_resume(variants(), {2, 7, 10}, [](const std::string& bytes) {
    EXPECT_THAT(bytes, testing::Not(HasSubstr("epoch: 1\n"))) << "an epoch has more batches than this run";
  });
}

TEST(ImageTraining, GradientCheckpointingChangesNoBit) {
  for (const char* attention : {"full", "blocks(15,1)", "1*local(15);1*full"}) {
    TestRun test;
    test.train.after_batches = 5;
    test.model.attention = attention;
    train::expect_exact_checkpointing(test);
  }
}

// The images differ in two numbers; the rest is one of four values, which is 1.39 nats.
TEST(ImageTraining, LearnsTheImages) {
  TestRun test;
  test.model.transformer_dropout = 0;
  test.train.after_batches = 250;
  const double cost = run(test);
  EXPECT_LT(cost, 2.5) << "nats per value; 5.5 if all values are as likely";
  EXPECT_GT(cost, 0.5) << "the images have noise";
}

TEST(ImageTraining, ALossIsOfAllValuesOfItsImages) {
  TestRun test;
  const std::unique_ptr<ImageTask> task = test.task();
  EXPECT_EQ(task->begin_epoch(1), (std::vector<int64_t>{3, 3, 3, 1}));
  EXPECT_EQ(task->loss(0, {}).weight, 3 * 60);
  EXPECT_EQ(task->loss(3, {}).weight, 60);
  test.model.crop = {2, 3};
  const std::unique_ptr<ImageTask> cut = test.task();
  cut->begin_epoch(1);
  EXPECT_EQ(cut->loss(0, {}).weight, 3 * 18);
}

std::string refusal(const TestRun& test) {
  return message_of([&] { test.task(); });
}

TEST(ImageTraining, SaysWhatIsWrongWithImages) {
  TestRun test;
  test.data.valid_sets = {write_images(test.folder / "other", 2, {5, 5, 3}, 1)};
  EXPECT_EQ(refusal(test),
            "--valid-sets: got images of 5x5x3 (height x width x channels), but the model reads 4x5x3; expected images "
            "of that size");
  test.model.crop = {4, 4};
  EXPECT_EQ(refusal(test), "nothing was thrown") << "large enough to be cut";
  test.model.crop = {5, 5};
  EXPECT_EQ(refusal(test),
            "--train-sets: got images of 4x5x3 (height x width x channels), but the model reads 5x5x3, cut from images "
            "that are at least as large; expected images of that size");
  test.model.crop = {};
  test.model.image_shape = {4, 4, 3};
  EXPECT_THAT(refusal(test), HasSubstr("--train-sets: got images of 4x5x3"));
  test.model.image_shape = {0, 0, 0};
  test.model.dim_vocabs = {256};
  EXPECT_EQ(refusal(test),
            "--dim-vocabs: got 256, but images have 257 symbols (256 values and the beginning); leave the option out");
  test.model.dim_vocabs = {0};
  test.data.valid_sets.clear();
  test.model.transformer_positions = "learned";
  test.model.max_positions = 59;
  EXPECT_EQ(refusal(test),
            "--transformer-positions learned: an image of 4x5x3 has 60 values; --max-positions is 59; raise it, or "
            "choose the positions image");
  test.model.max_positions = 60;
  EXPECT_EQ(refusal(test), "nothing was thrown");
}

TEST(ImageTraining, SaysWhatIsWrongWithTheConfiguration) {
  const auto problem = [](const std::function<void(ImageConfig&)>& change) {
    ImageConfig config;
    change(config);
    return message_of([&] { validate(config); });
  };
  EXPECT_EQ(problem([](ImageConfig&) {}), "nothing was thrown");
  EXPECT_EQ(problem([](ImageConfig& c) { c.crop = {4}; }), "--crop has 1 number; expected two, height and width");
  EXPECT_THAT(problem([](ImageConfig& c) { c.crop = {4, 0}; }), HasSubstr("--crop: got '0'"));
  const char* shape =
      "--image-shape: expected height, width and channels (1 or 3), with at most 16,777,216 values in an image";
  for (const std::vector<int64_t>& wrong : std::vector<std::vector<int64_t>>{
           {4, 4}, {4, 4, 2}, {4, 0, 3}, {0, 0, 3}, {1 << 24, 1 << 24, 3}, {4096, 4097, 1}})
    EXPECT_THAT(problem([&](ImageConfig& c) { c.image_shape = wrong; }), HasSubstr(shape));
  EXPECT_EQ(problem([](ImageConfig& c) { c.image_shape = {4096, 4096, 1}; }), "nothing was thrown");
  for (const std::vector<int64_t>& crop : std::vector<std::vector<int64_t>>{{4, 5}, {4, 6}, {3, 5}}) {
    const bool is_same = crop == std::vector<int64_t>{4, 5};
    EXPECT_EQ(problem([&](ImageConfig& c) {
                c.crop = crop, c.image_shape = {4, 5, 3};
              }),
              is_same ? "nothing was thrown"
                      : "--crop and --image-shape have different heights or widths; leave one of them out");
  }
}

}  // namespace
}  // namespace fovea::image::training_test
