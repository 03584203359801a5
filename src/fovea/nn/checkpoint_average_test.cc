#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include <functional>

#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/checkpoint_average.h"
#include "fovea/nn/test_checkpoints.h"

namespace fovea::nn::checkpoint_average_test {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(Checkpoint, AveragingIsTheMean) {
  const TestFolder run;
  for (const int64_t updates : {1, 2, 4, 9}) save(run.path(), updates);
  average_checkpoints({run.path(), 3}, run / "mean");
  const Checkpoint mean = load_checkpoint(run / "mean", Load::kModel);
  EXPECT_TRUE(mean.model.at("a.weight").equal(at::full({3, 2}, 5.0F)));
  EXPECT_TRUE(mean.model.at("b").equal(at::arange(4, at::kFloat)));
  EXPECT_EQ(mean.identity.files, some_checkpoint(1).identity.files);
  EXPECT_THAT(message_of([&] { average_checkpoints({run.path(), 5}, run / "mean"); }), HasSubstr("has 4 checkpoints"));
}

TEST(Checkpoint, AveragingHeedsWhatLastNamesAndLeavesOutTheBestAlone) {
  const TestFolder run;
  for (const int64_t updates : {2, 4, 7, 8, 11, 14}) save(run.path(), updates, "2");
  link_checkpoint(run.path(), "last", checkpoint_path(run.path(), 11));
  const auto mean = [&](int64_t count, int64_t until = 0) {
    average_checkpoints({run.path(), count, until}, run / "mean");
    return load_checkpoint(run / "mean", Load::kModel).model.at("a.weight")[0][0].item<double>();
  };
  EXPECT_DOUBLE_EQ(mean(1), 11);
  EXPECT_DOUBLE_EQ(mean(4), (2 + 4 + 8 + 11) / 4.0);
  EXPECT_FLOAT_EQ(mean(5), (2 + 4 + 7 + 8 + 11) / 5.0F) << "too few without";
  EXPECT_THAT(message_of([&] { mean(6); }), HasSubstr("has 5 checkpoints"));
  EXPECT_THAT(message_of([&] { mean(0); }), HasSubstr("--last 0"));
  EXPECT_FLOAT_EQ(mean(3, 10), (2 + 4 + 8) / 3.0F);
  EXPECT_DOUBLE_EQ(mean(2, 7), (2 + 4) / 2.0) << "7 was kept as the best alone";
  EXPECT_DOUBLE_EQ(mean(1, 11), 11);
  EXPECT_THAT(message_of([&] { mean(2, 3); }),
              HasSubstr("--last 2: '" + run.path().string() + "' has 1 checkpoints of at most 3 updates"));
}

TEST(Checkpoint, AveragingRefusesCheckpointsOfOtherModels) {
  const TestFolder run;
  const auto refusal = [&](const std::function<void(Checkpoint&)>& change) {
    Checkpoint other = some_checkpoint(1);
    change(other);
    save_checkpoint(checkpoint_path(run.path(), 1), other);
    save(run.path(), 2);
    return message_of([&] { average_checkpoints({run.path(), 2}, run / "mean"); });
  };
  const std::string first = checkpoint_path(run.path(), 1), second = checkpoint_path(run.path(), 2);
  EXPECT_EQ(refusal([](Checkpoint& c) {
              EncoderDecoderConfig config = config_of(c);
              config.transformer_norm = "pre";
              c.identity.config = to_yaml(config);
            }),
            cat(first, "/config.yml: transformer-norm is 'pre', but 'post' in '", second,
                "'; average the checkpoints of one model"));
  EXPECT_THAT(refusal([](Checkpoint& c) { c.identity.files["source.spm"] += "x"; }),
              HasSubstr(first + "/source.spm: is not"));
  EXPECT_THAT(refusal([](Checkpoint& c) { c.identity.files["target.spm"] += "x"; }),
              HasSubstr(first + "/target.spm: is not"));
  EXPECT_FALSE(fs::exists(run / "mean"));
}

TEST(Checkpoint, AveragingWritesOverNoRun) {
  const TestFolder run, elsewhere;
  const fs::path path = save(run.path(), 1);
  const auto refusal = [&](const fs::path& output) {
    return message_of([&] { average_checkpoints({run.path(), 1}, output); });
  };
  fs::create_directory_symlink(run.path(), elsewhere.path() / "link");
  for (const fs::path& output : {path, path / "", path / "deeper", run.path() / "checkpoints/new", run.path() / "last",
                                 run.path() / "last/", run.path() / "best", elsewhere.path() / "link/best/"})
    EXPECT_THAT(refusal(output), HasSubstr("among the run's own checkpoints")) << output;
  link_checkpoint(run.path(), "best", path);
  EXPECT_THAT(refusal(run.path() / "best"), HasSubstr("among the run's own checkpoints"));
  const fs::path other = save(elsewhere.path(), 1);
  EXPECT_THAT(refusal(other), HasSubstr("is a checkpoint that training resumes from"));
  EXPECT_EQ(resumed(run.path()), "1");
  EXPECT_EQ(resumed(elsewhere.path()), "1");
}

TEST(Checkpoint, AveragingFollowsALinkThatIsItsOutput) {
  const TestFolder run;
  save(run.path(), 1);
  fs::create_directory_symlink("folder", run.path() / "output");
  EXPECT_THAT(message_of([&] {
                average_checkpoints({run.path(), 1}, run / "output");
              }),
              HasSubstr("is a link to 'folder', which does not exist"));
  fs::create_directory(run.path() / "folder");
  for (int i = 0; i < 2; ++i) average_checkpoints({run.path(), 1}, run / "output");
  EXPECT_TRUE(fs::is_symlink(run.path() / "output"));
  EXPECT_TRUE(is_checkpoint(run.path() / "folder"));
  // An average that serves as the run's best is made again.
  fs::remove(run.path() / "best");
  fs::create_directory_symlink("folder", run.path() / "best");
  average_checkpoints({run.path(), 1}, run / "folder");
  EXPECT_THAT(message_of([&] { average_checkpoints({run.path(), 1}, run / "best/"); }), HasSubstr("own checkpoints"));
}

}  // namespace
}  // namespace fovea::nn::checkpoint_average_test
