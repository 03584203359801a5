#include <gtest/gtest.h>
#include "fovea/tasks/translation/test_task.h"

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "fovea/base/signals.h"

// Runs that are stopped, by a limit or a signal, and resumed.
namespace fovea::translation::training_resume_test {
namespace {
namespace fs = std::filesystem;

using Variant = train::Variant<TestTask>;

const std::vector<Variant> kVariants = {
    {"plain", [](TestTask&) {}},
    {"average", [](TestTask& t) { t.train.exponential_smoothing = 0.05; }},
    {"bfloat16", [](TestTask& t) { t.train.precision = "bfloat16"; }},
    {"delay, checkpointing",
     [](TestTask& t) {
       t.train.optimizer_delay = 3;
       t.train.gradient_checkpointing = true;
     }},
    {"two threads", [](TestTask& t) { t.train.cpu_threads = 2; }},
    {"encoded text", [](TestTask& t) { t.data.encoded_text = t.folder / "kept"; }},
    {"validation",
     [](TestTask& t) {
       t.with_validation();
       t.train.save_freq = 3;
     }},
};

TEST(Training, TheSameSeedGivesTheSameFiles) {
  TestTask a, b;
  a.train.after_batches = b.train.after_batches = 9;
  run(a);
  run(b);
  EXPECT_EQ(bytes_of(a.train.model), bytes_of(b.train.model));
  b.train.model = b.folder / "other";
  b.train.seed = 2;
  run(b);
  EXPECT_NE(bytes_of(a.train.model), bytes_of(b.train.model));
}

// N updates = k + resume + (N - k), to the last bit, in the middle of an epoch and at its end (an epoch has about 12
// updates of one batch).
TEST(Training, AResumedRunIsTheRunThatNeverStopped) {
  for (const Variant& variant : kVariants) {
    TestTask task;
    variant.change(task);
    task.train.after_batches = 27;
    run(task);
    const std::string expected = bytes_of(task.train.model), files = checkpoints_of(task.train.model);
    for (const int64_t first : {1, 8, 12, 26}) {
      task.train.model = task.folder / cat("resumed", first);
      task.train.after_batches = first;
      run(task);
      task.train.after_batches = 27;
      run(task);
      EXPECT_EQ(bytes_of(task.train.model), expected) << variant.name << ", stopped after " << first;
      EXPECT_EQ(checkpoints_of(task.train.model), files) << variant.name << ", stopped after " << first;
    }
  }
}

struct Signalled : testing::Test {
  Signalled() {
    std::signal(SIGINT, SIG_DFL);  // which shells ignore in the background
    install_signal_handlers();
  }
  ~Signalled() override { clear_interrupt(); }
  // Stops the run by `signal` at update 6, resumes it, and expects what was never stopped.
  static void stop_and_resume(TestTask& task, int signal) {
    task.train.after_batches = 15;
    run(task);
    const std::string expected = bytes_of(task.train.model), files = checkpoints_of(task.train.model);
    task.train.model = task.folder / "stopped";
    Hooks hooks;
    hooks.on_update = [&](const train::UpdateReport& report) {
      if (report.updates == 6) std::raise(signal);
    };
    if (signal != SIGINT) {
      run(task, hooks);
    } else {
      EXPECT_THROW(run(task, hooks), Interrupted);
    }
    EXPECT_EQ(fs::read_symlink(fs::path(task.train.model) / "last").filename(), "update-00000006");
    clear_interrupt();
    run(task);
    EXPECT_EQ(bytes_of(task.train.model), expected);
    EXPECT_EQ(checkpoints_of(task.train.model), files);
  }
};

TEST_F(Signalled, SigtermSavesAndReturns) {
  TestTask task;
  stop_and_resume(task, SIGTERM);
}

TEST_F(Signalled, Sigusr1SavesAndReturns) {
  TestTask task;
  stop_and_resume(task, SIGUSR1);
}

TEST_F(Signalled, SigintSavesAndThrows) {
  TestTask task;
  stop_and_resume(task, SIGINT);
}

TEST_F(Signalled, AnAbandonedValidationIsMadeUpFor) {
  TestTask task;
  task.with_validation();
  task.train.valid_freq = 6;  // the signal at update 6 ends this validation
  stop_and_resume(task, SIGTERM);
}

TEST_F(Signalled, ASignalDuringValidationStopsToo) {
  TestTask task;
  task.with_validation();
  task.train.valid_metrics = {"bleu"};
  Hooks hooks;
  hooks.translations = [] {
    std::raise(SIGTERM);
    throw_if_interrupted("translation");
    return 1.0;
  };
  run(task, hooks);
  EXPECT_EQ(fs::read_symlink(fs::path(task.train.model) / "last").filename(), "update-00000004");
}

}  // namespace
}  // namespace fovea::translation::training_resume_test
