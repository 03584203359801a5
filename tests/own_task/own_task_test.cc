// A program of its own with its own task: `own_task_test train OPTIONS` is its `fovea train`; without arguments it
// tests that such a run is killed, resumed, validated and averaged like any other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "copy_task.h"
#include "fovea/app/options.h"
#include "fovea/app/train_command.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/checkpoint_average.h"
#include "fovea/tasks/train_setup.h"

namespace own {
namespace {
namespace fs = std::filesystem;
using namespace fovea;
using testing::HasSubstr;

constexpr std::array kTasks = {
    tasks::TaskEntry{.name = "copy", .summary = "copies symbols", .train = tasks::train_setup<CopyTask>}};

// Trains in a process of its own, a fork, which need not load libtorch again; returns waitpid's status.
int run_program(const std::vector<std::string>& arguments) {
  const pid_t child = fork();
  if (child == 0) {
    int code = 1;
    try {
      app::train_one_of(kTasks, arguments);
      code = 0;
    } catch (const std::exception& e) {
      (void)std::fprintf(stderr, "%s\n", e.what());
    }
    _exit(code);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string bytes_of(const fs::path& checkpoint) {
  std::string bytes;
  for (const char* file : {"config.yml", "model.safetensors", "optimizer.safetensors", "progress.yml", "alphabet.txt"})
    bytes += read_file(checkpoint / file) + "\n--\n";
  return bytes;
}

TEST(OwnTask, KilledAndResumedIsBitForBitTheRunThatNeverStopped) {
  const std::vector<std::string> common = {"--after-batches",
                                           "27",
                                           "--save-freq",
                                           "4",
                                           "--keep-last",
                                           "3",
                                           "--cpu-threads",
                                           "1",
                                           "--disp-freq",
                                           "1000",
                                           "--quiet",
                                           "--learn-rate",
                                           "1e-2",
                                           "--lr-warmup",
                                           "0",
                                           "--with-validation",
                                           "--valid-freq",
                                           "5"};
  for (const std::vector<std::string>& variant :
       {std::vector<std::string>{},
        {"--precision", "bfloat16"},
        {"--exponential-smoothing", "0.1"},
        {"--optimizer", "adagrad", "--clip-norm-tensor", "0.03", "--adagrad-initial", "0.01"},
        {"--optimizer", "adafactor", "--adafactor-relative-step", "--precision", "bfloat16", "--optimizer-delay", "2",
         "--exponential-smoothing", "0.1"}}) {
    const TestFolder folder;
    ASSERT_EQ(run_program(with(with(common, variant), {"--model", folder / "whole"})), 0);
    const std::string expected = bytes_of(folder.path() / "whole/last");
    // In the middle of the first epoch, at the first batch of the second, and behind a checkpoint.
    for (const char* die_at : {"7", "11", "18"}) {
      const fs::path run = folder.path() / cat("killed", die_at);
      const std::vector<std::string> command = with(with(common, variant), {"--model", run});
      const int status = run_program(with(command, {"--die-at", die_at}));
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
      ASSERT_EQ(run_program(command), 0);
      EXPECT_EQ(bytes_of(run / "last"), expected) << "killed in batch " << die_at;
    }
    EXPECT_TRUE(fs::is_symlink(folder.path() / "whole/best")) << "chosen by its own measure";
  }
}

TEST(OwnTask, KeepsItsOptimizer) {
  const TestFolder folder;
  const fs::path run = folder.path() / "run";
  const std::vector<std::string> command = {"--model",       run, "--learn-rate", "3e-4",
                                            "--cpu-threads", "1", "--quiet",      "--after-batches"};
  ASSERT_EQ(run_program(with(command, {"2"})), 0);
  const auto last = [&] { return nn::load_checkpoint(run, nn::Load::kAll).progress.at("updates"); };
  EXPECT_THAT(
      message_of([&] {
        app::train_one_of(kTasks, with(command, {"4", "--optimizer", "adagrad"}));
      }),
      HasSubstr("the run was trained with --optimizer adam, got adagrad; give the same optimiser, or start a new run "
                "from its weights with --pretrained-model"));
  EXPECT_EQ(last(), "2");
  ASSERT_EQ(run_program({"--model", folder / "new", "--pretrained-model", run, "--optimizer", "adagrad", "--learn-rate",
                         "3e-4", "--after-batches", "1", "--cpu-threads", "1", "--quiet"}),
            0);
}

// The share starts at 1 and disturbs. Without a limit it would be 0.978 after 30 updates.
TEST(OwnTask, AParameterStaysWithinItsLimits) {
  for (const char* precision : {"float32", "bfloat16"}) {
    const TestFolder folder;
    const fs::path run = folder.path() / "run";
    const std::vector<std::string> command = {"--model", run,       "--precision", precision, "--cpu-threads",
                                              "1",       "--quiet", "--lr-warmup", "0",       "--learn-rate",
                                              "0.01"};
    ASSERT_EQ(run_program(with(command, {"--after-batches", "3"})), 0);
    const auto share = [&] {
      return nn::load_checkpoint(run / "last", nn::Load::kModel).model.at("share").item<float>();
    };
    EXPECT_NE(share(), 1);
    EXPECT_GT(share(), static_cast<float>(CopyTask::kLeastShare));
    ASSERT_EQ(run_program(with(command, {"--after-batches", "30"})), 0);
    // The float32 weight is clamped, so the limit is exact in bfloat16, too.
    EXPECT_EQ(share(), static_cast<float>(CopyTask::kLeastShare)) << precision;
  }
}

// Batches 0 to 3 are of the first log line, 4 to 7 of the second.
TEST(OwnTask, LogsTheMeansOfItsNotes) {
  const TestFolder folder;
  const std::string log = folder / "log";
  ASSERT_EQ(run_program({"--model", folder / "run", "--after-batches", "4", "--disp-freq", "2", "--optimizer-delay",
                         "2", "--cpu-threads", "1", "--log", log, "--lr-warmup", "0", "--lr-decay", "none",
                         "--learn-rate", "1e-9"}),
            0);
  const std::string text = read_file(log);
  EXPECT_THAT(text, HasSubstr("L.r. 1.0000e-09 : share 1.0000 : batch 1.5000\n"));
  EXPECT_THAT(text, HasSubstr("L.r. 1.0000e-09 : share 1.0000 : batch 5.5000\n"));
}

TEST(OwnTask, AveragesParametersAndBuffers) {
  const TestFolder folder;
  const fs::path run = folder.path() / "run";
  ASSERT_EQ(run_program({"--model", run, "--learn-rate", "3e-4", "--after-batches", "8", "--save-freq", "2",
                         "--cpu-threads", "1", "--quiet"}),
            0);
  nn::average_checkpoints({run, 4}, folder / "mean");
  const nn::Checkpoint mean = nn::load_checkpoint(folder / "mean", nn::Load::kModel);
  EXPECT_EQ(mean.identity.task, "copy");
  EXPECT_EQ(mean.identity.files.at("alphabet.txt"), "11 symbols\n");
  EXPECT_EQ(mean.model.at("updates").item<double>(), (2 + 4 + 6 + 8) / 4.0);
}

// --task is looked up in the file before the options are parsed, and a pipe gives its bytes only once.
TEST(OwnTask, ReadsAConfigurationFromAPipe) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(pipe(ends.data()), 0);
  const std::string text = "batches: 0\n";
  ASSERT_EQ(write(ends[1], text.data(), text.size()), std::ssize(text));
  close(ends[1]);
  const std::string path = cat("/dev/fd/", ends[0]);
  EXPECT_THAT(message_of([&] {
                app::train_one_of(kTasks, {"--model", "m", "--config", path});
              }),
              HasSubstr("batches: got '0'"));
  close(ends[0]);
}

TEST(OwnTask, PeeksAtAnOptionHoweverItIsWritten) {
  using Arguments = std::vector<std::string>;
  for (const Arguments& arguments :
       {Arguments{"--model", "run"}, {"--model=run"}, {"-m", "run"}, {"-mrun"}, {"--prompt", "-mad", "-m", "run"}})
    EXPECT_EQ(app::peek(arguments, "model", 'm'), "run") << arguments.front();
  EXPECT_EQ(app::peek({"-mrun"}, "task"), std::nullopt);
}

TEST(OwnTask, SaysWhatIsWrongWithItsOptions) {
  const auto refusal = [](const std::vector<std::string>& arguments) {
    return message_of([&] { app::train_one_of(kTasks, arguments); });
  };
  EXPECT_EQ(refusal({"--task", "translation"}), "--task: got 'translation'; expected one of copy");
  EXPECT_EQ(refusal({"--model", "m", "--learn-rate", "1", "--batches", "0"}),
            "--batches: got '0'; expected a whole number of at least 1 and at most 1,000");
  EXPECT_EQ(refusal({"--model", "m", "--learn-rate", "1", "--valid-metrics", "bleu"}),
            "--valid-metrics: got 'bleu'; expected some of copied, nats");
  EXPECT_THAT(refusal({"--train-sets", "x"}), HasSubstr("unknown option '--train-sets'"));
}

}  // namespace
}  // namespace own

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "train") {
    fovea::app::train_one_of(own::kTasks, {argv + 2, argv + argc});
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
