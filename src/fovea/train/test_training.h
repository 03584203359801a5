#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/train/run_training.h"
#include "fovea/train/task.h"

namespace fovea::train {

// Trains the task T; returns the cost of the last update, per unit of BatchLoss::weight.
template <class T, class Options, class Model>
double train_task(const TrainConfig& train, const Options& options, const Model& model) {
  double cost = 0;
  const auto load = [&](const TrainConfig& config, int64_t batches_an_update) -> std::unique_ptr<Task> {
    return std::make_unique<T>(config, options, model, batches_an_update);
  };
  run_training({.config = train, .load = load, .on_update = [&](const UpdateReport& report) { cost = report.cost; }});
  return cost;
}

// Every file of the checkpoint that run/name links to, as one string.
inline std::string bytes_of(const std::string& run, const std::string& name = "last") {
  const std::filesystem::path checkpoint = std::filesystem::path(run) / name;
  std::string bytes;
  for (const std::string& file : names_in(checkpoint)) bytes += cat(file, "\n", read_file(checkpoint / file), "\n--\n");
  return bytes;
}

// A name and a change of a test's run: a class that has members `train`, the options, and `folder`, and that a function
// run() trains.
template <class TestRun>
struct Variant {
  const char* name;
  std::function<void(TestRun&)> change;
};

// Expects of each variant that a run which is stopped after each number of updates ends with the bytes of one that
// never was. `check` gets those bytes.
template <class TestRun>
void expect_exact_resume(const std::vector<Variant<TestRun>>& variants, const std::vector<int64_t>& updates,
                         const std::function<void(const std::string& bytes)>& check = {}) {
  for (const Variant<TestRun>& variant : variants) {
    SCOPED_TRACE(variant.name);
    TestRun test;
    variant.change(test);
    test.train.after_batches = updates.back();
    run(test);
    const std::string expected = bytes_of(test.train.model);
    if (check) check(expected);
    test.train.model = test.folder / "stopped";
    for (const int64_t stop : updates) {
      test.train.after_batches = stop;
      run(test);
    }
    EXPECT_EQ(bytes_of(test.train.model), expected);
  }
}

// Expects that gradient checkpointing does not change a bit of the run.
template <class TestRun>
void expect_exact_checkpointing(TestRun& test) {
  run(test);
  const std::string expected = bytes_of(test.train.model);
  test.train.model = test.folder / "checkpointed";
  test.train.gradient_checkpointing = true;
  run(test);
  EXPECT_EQ(bytes_of(test.train.model), expected) << test.model.attention << " " << test.train.precision;
}

}  // namespace fovea::train
