#include "fovea/app/average_checkpoints.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <utility>

#include "fovea/app/torch.h"
#include "fovea/app/version.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_average.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/spec/config_version.h"
#include "fovea/spec/run_files.h"
#include "fovea/tasks/model_validation.h"

namespace fovea::app {
namespace fs = std::filesystem;
namespace {

tasks::TrainSetup setup_of_run(const std::string& run) {
  const std::span<const tasks::TaskEntry> list = task_list();
  const std::string task = nn::task_of_checkpoint(run);
  const auto found = std::ranges::find_if(list, [&](const tasks::TaskEntry& entry) { return entry.name == task; });
  tasks::TrainSetup setup;
  if (found != list.end()) setup = found->train();
  if (setup.load_validation == nullptr)
    throw Error(cat("--each: '", run, "' is a model of the task ", task,
                    ", which has no validation apart from training; "
                    "average without --each"));
  return setup;
}

// The file was checked when the training began, but may have been edited since.
void require_usable(const tasks::TrainSetup& setup, const TrainConfig& train, const std::string& file) {
  Problems problems;
  setup.add_problems(train, problems);
  try {
    problems.throw_if_any();
  } catch (const UsageError& error) {
    throw Error(cat(file, ": ", error.what()));
  }
}

// The options of the run, into `setup` and the result, with those of the command line over them.
TrainConfig config_of_run(const AverageConfig& config, const tasks::TrainSetup& setup) {
  TrainConfig train;
  std::vector<FieldView> fields = field_views(train);
  fields.insert(fields.end(), setup.options.begin(), setup.options.end());
  const size_t settable = fields.size();
  fields.insert(fields.end(), setup.model.begin(), setup.model.end());
  const fs::path file = fs::path(config.model) / kRunConfigFile;
  std::error_code failed;
  if (fs::exists(file, failed)) {
    from_versioned_yaml(read_text_file(file), file.string(), kVersion, fields);
    require_usable(setup, train, file.string());
  }
  train.model = config.model;
  train.devices = config.devices;
  train.cpu_threads = config.cpu_threads;
  if (!config.valid_metrics.empty()) train.valid_metrics = config.valid_metrics;
  for (size_t i = 0; i < settable; ++i) {
    if (fields[i].name == "valid-sets" && !config.valid_sets.empty()) assign(fields[i], config.valid_sets);
  }
  return train;
}

// The measures to compute: those of the command line, or the run's first.
std::vector<std::string> measures_of(const AverageConfig& config, const TrainConfig& train,
                                     const tasks::ModelValidation& validation) {
  std::vector<std::string> names = train.valid_metrics.empty() ? validation.default_measures : train.valid_metrics;
  if (config.valid_metrics.empty()) names.resize(1);
  Problems problems;
  train::check_measures(validation.measures, names, problems);
  problems.throw_if_any();
  return names;
}

using Window = std::span<const fs::path>;

// The checkpoints of each average, in the order of their ends.
std::vector<Window> windows_of(std::span<const fs::path> checkpoints, const AverageConfig& config) {
  const auto length = static_cast<size_t>(config.last), each = static_cast<size_t>(config.each);
  std::vector<Window> windows;
  for (size_t end = checkpoints.size(); end >= length; end -= each) {
    windows.push_back(checkpoints.subspan(end - length, length));
    if (end < each) break;
  }
  std::ranges::reverse(windows);
  return windows;
}

// Columns of one width, apart by two blanks.
void print_row(const std::vector<std::string>& cells, size_t width) {
  std::string row;
  for (const std::string& cell : cells) row += cell + std::string(width - std::min(width, cell.size()) + 2, ' ');
  std::cout << row.substr(0, row.find_last_not_of(' ') + 1) << std::endl;
}

std::string ends_of(const Window& window) {
  return cat(window.front().filename().string(), " to ", window.back().filename().string());
}

void save_best_average(const AverageConfig& config) {
  const std::vector<fs::path> checkpoints = nn::require_checkpoints(config.model, config.last);
  const fs::path output = nn::checked_output(config.model, config.output);
  const tasks::TrainSetup setup = setup_of_run(config.model);
  TrainConfig train = config_of_run(config, setup);
  train.model = checkpoints.back();  // its weights give way to those of each average
  const tasks::ModelValidation validation = setup.load_validation(train);
  const std::vector<std::string> names = measures_of(config, train, validation);
  const train::Measure& first = train::measure_of(validation.measures, names.front());
  const std::vector<Window> windows = windows_of(checkpoints, config);
  size_t width = 0;
  for (const fs::path& path : checkpoints) width = std::max(width, path.filename().string().size());
  std::vector<std::string> row = {"first", "last"};
  row.insert(row.end(), names.begin(), names.end());
  log::info(cat(windows.size(), " averages of ", config.last, " checkpoints each to validate"));
  print_row(row, width);
  std::optional<nn::Checkpoint> best;
  std::optional<double> best_value;
  std::string best_ends;
  for (const Window& window : windows) {
    nn::Checkpoint mean = nn::mean_of(window);
    nn::load_parameters(*validation.module, mean.model, ends_of(window));
    const std::vector<double> values = validation.validate(names);
    row = {window.front().filename().string(), window.back().filename().string()};
    for (size_t m = 0; m < names.size(); ++m)
      row.push_back(fixed(values[m], train::measure_of(validation.measures, names[m]).digits));
    const bool is_better = train::is_better(first, values.front(), best_value);
    if (is_better) best = std::move(mean), best_value = values.front(), best_ends = ends_of(window);
    print_row(row, width);
  }
  if (!best) throw Error(cat("--each: the averages do not have a finite ", first.name, "; none was saved"));
  nn::save_checkpoint(output, *best);
  log::info(cat("the best ", first.name, " is ", fixed(*best_value, first.digits), ": ", best_ends));
}

}  // namespace

void average_checkpoints(const AverageConfig& config) {
  if (config.each > 0) {
    save_best_average(config);
  } else {
    nn::average_checkpoints(config.model, config.last, config.output);
  }
}

}  // namespace fovea::app
