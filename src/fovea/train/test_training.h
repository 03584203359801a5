#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/train/task.h"
#include "fovea/train/train.h"

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

}  // namespace fovea::train
