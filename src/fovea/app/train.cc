#include "fovea/train/train.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fovea/app/defaults_edition.h"
#include "fovea/app/options.h"
#include "fovea/app/run_config.h"
#include "fovea/app/train_command.h"
#include "fovea/base/output_target.h"
#include "fovea/base/strings.h"
#include "fovea/nn/paths.h"
#include "fovea/spec/logging.h"
#include "fovea/spec/run_files.h"
#include "fovea/tasks/task_list.h"
#include "fovea/train/run_folder.h"

namespace fovea::app {
namespace fs = std::filesystem;
namespace {

// The log may lie in the run's folder, which the first run makes after the log's first lines.
void make_folder_of_log(const TrainConfig& config) {
  if (config.log.empty()) return;
  const fs::path run = nn::resolved_path(config.model, "--model");
  const fs::path folder = nn::resolved_path(config.log, "--log").parent_path();
  const fs::path inside = folder.lexically_relative(run);
  if (inside.empty() || *inside.begin() == "..") return;
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw Error(cat("--log: cannot make the folder '", folder.string(), "': ", failed.message()));
}

// The run writes these itself.
void check_log_in_run(const TrainConfig& config) {
  for (const char* name : {kRunConfigFile, kRunRecordFile}) {
    if (!config.log.empty() && is_same_file_to_write(config.log, fs::path(config.model) / name))
      throw Error(cat("--log: '", config.log, "' is the run's own ", name, "; name another file"));
  }
}

// All options of a training.
std::vector<FieldView> fields_of(TrainConfig& config, const tasks::TrainSetup& setup) {
  std::vector<FieldView> fields = field_views(config);
  fields.insert(fields.end(), setup.options.begin(), setup.options.end());
  fields.insert(fields.end(), setup.model.begin(), setup.model.end());
  return fields;
}

std::vector<std::string> names_of(std::span<const tasks::TaskEntry> list) {
  std::vector<std::string> names;
  for (const tasks::TaskEntry& entry : list) names.emplace_back(entry.name);
  return names;
}

const tasks::TaskEntry& task_of(std::span<const tasks::TaskEntry> list, const std::vector<std::string>& arguments) {
  const std::string task = peek(arguments, "task").value_or(std::string(list.front().name));
  const auto found = std::ranges::find_if(list, [&](const tasks::TaskEntry& entry) { return entry.name == task; });
  if (found != list.end()) return *found;
  const std::vector<std::string> names = names_of(list);
  throw UsageError(cat("--task: got '", task, "'; expected one of ", join(names, ", "), did_you_mean(task, names)));
}

// Each task with its summary and measures.
std::string help_of_tasks(std::span<const tasks::TaskEntry> list) {
  std::string text = "Tasks (fovea train --task NAME --help lists all options of one):\n";
  for (const tasks::TaskEntry& entry : list) {
    text +=
        cat("  --task ", entry.name, ": ", entry.summary, "\n      --valid-metrics of ", entry.train().measures, "\n");
  }
  return text;
}

// A training as its arguments describe it.
struct Training {
  TrainConfig config;
  tasks::TrainSetup setup;
};

Training new_training(const tasks::TaskEntry& task, int64_t edition) {
  Training training{.config = {}, .setup = task.train()};
  if (edition == kNewestDefaults) training.setup.use_defaults(training.config);
  training.config.task = task.name;
  return training;
}

// Reads the arguments into `training`. False if they only ask for a text, such as the help, which is then printed.
bool parse_training(std::span<const tasks::TaskEntry> list, const std::vector<std::string>& arguments,
                    Training& training) {
  const std::string& chosen = training.config.task;
  Options options(
      "train", "Trains a model; the same command continues a run that was stopped.",
      "[--task NAME] --model DIR --train-sets A [B] --vocabs V [V] [--valid-sets C [D]] [--attention SPEC]");
  options.add(training.config, "Training");
  options.add(training.setup.options, cat("Task ", chosen));
  options.add(training.setup.model, cat("Model of the task ", chosen));
  std::vector<Training> others;
  for (const tasks::TaskEntry& entry : list) {
    if (entry.name == chosen) continue;
    const Training& other = others.emplace_back(new_training(entry, training.config.defaults));
    std::vector<FieldView> fields = other.setup.options;
    fields.insert(fields.end(), other.setup.model.begin(), other.setup.model.end());
    options.add_other(cat("--task ", entry.name), fields);
  }
  options.epilogue(help_of_tasks(list) +
                   "\n  fovea train --model run --train-sets train.en train.de --vocabs joint.spm joint.spm \\\n"
                   "      --valid-sets valid.en valid.de --tied-embeddings-all --attention 'topk(8)' --after-batches "
                   "20000\n"
                   "  fovea train --task language --model run --train-sets train.txt --vocabs bytes --valid-sets "
                   "valid.txt \\\n"
                   "      --after-batches 20000");
  return options.parse(arguments);
}

// The same with the defaults of the run that goes on, if it has others than a new one and the arguments name none.
// Nothing if the arguments only ask for a text.
std::optional<Training> training_of(std::span<const tasks::TaskEntry> list, const std::vector<std::string>& arguments) {
  const tasks::TaskEntry& task = task_of(list, arguments);
  const std::optional<int64_t> given = given_edition(arguments);
  Training training = new_training(task, given.value_or(kNewestDefaults));
  if (!parse_training(list, arguments, training)) return std::nullopt;
  if (given || training.config.model.empty() || !train::goes_on(training.config)) return training;
  const int64_t edition = edition_of_run(training.config.model);
  if (edition == training.config.defaults) return training;
  training = new_training(task, edition);
  parse_training(list, arguments, training);
  return training;
}

// Replaces --learn-rate -1 by the rate for the width of the model. A model without a width keeps it, and is refused.
void settle_learn_rate(Training& training) {
  if (training.config.learn_rate != kRateByWidth) return;
  for (const FieldView& field : training.setup.model) {
    if (field.name == "dim-emb") training.config.learn_rate = usual_learn_rate(std::stoll(values_of(field).front()));
  }
}

}  // namespace

void train_one_of(std::span<const tasks::TaskEntry> list, const std::vector<std::string>& arguments) {
  std::optional<Training> training = training_of(list, arguments);
  if (!training) return;
  TrainConfig& config = training->config;
  const tasks::TrainSetup& setup = training->setup;
  const double given_rate = config.learn_rate;
  settle_learn_rate(*training);
  Problems problems;
  add_problems(config, problems);
  setup.add_problems(config, problems);
  problems.throw_if_any();
  setup.check_model();
  check_log_in_run(config);
  make_folder_of_log(config);
  configure_log(config, setup.inputs());
  Training usual = new_training(task_of(list, arguments), config.defaults);
  if (given_rate == usual.config.learn_rate) usual.config.learn_rate = config.learn_rate;
  const std::vector<FieldView> fields = fields_of(config, setup), defaults = fields_of(usual.config, usual.setup);
  train::run_training({.config = config,
                       .load = setup.load,
                       .options = {.text = run_config(fields), .changed = changed_options(fields, defaults)}});
}

int run_train(const std::vector<std::string>& arguments) {
  train_one_of(tasks::task_list(), arguments);
  return 0;
}

}  // namespace fovea::app
