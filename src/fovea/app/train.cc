#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fovea/app/options.h"
#include "fovea/app/run_config.h"
#include "fovea/app/torch.h"
#include "fovea/app/train_command.h"
#include "fovea/base/aside.h"
#include "fovea/base/collective.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/output_target.h"
#include "fovea/base/strings.h"
#include "fovea/nn/paths.h"
#include "fovea/spec/logging.h"
#include "fovea/spec/run_files.h"
#include "fovea/train/run_training.h"

namespace fovea::app {
namespace fs = std::filesystem;
namespace {

// The options that --help shows: most trainings give some of them.
const std::vector<std::string> kUsualOptions = {
    // of every task
    "task", "model", "after-batches", "after-epochs", "learn-rate", "lr-warmup", "optimizer-delay", "precision",
    "valid-freq", "valid-metrics", "early-stopping", "save-freq", "seed", "overwrite", "pretrained-model",
    "cpu-threads", "quiet",
    // data
    "train-sets", "vocabs", "valid-sets", "mini-batch-words", "mini-batch", "max-length", "segment-length", "crop",
    "flip", "label-column", "features", "captions", "valid-features", "valid-captions",
    // the model
    "dim-emb", "enc-depth", "dec-depth", "transformer-heads", "transformer-dim-ffn", "transformer-dropout",
    "transformer-positions", "tied-embeddings", "tied-embeddings-all", "attention", "attention-encoder",
    "attention-decoder", "attention-cross"};

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
  // The folder of a run may come from someone else.
  const fs::path log = config.log;
  const bool is_in_run =
      !config.log.empty() && nn::resolved_path(folder_of(log), "--log") == nn::resolved_path(config.model, "--model");
  if (is_in_run) require_own_place("--log", log, OwnPlace::kFile);
}

// Replaces --learn-rate -1 by the rate for the width of the model. A model without a width keeps it, and is refused.
void use_rate_by_width(TrainConfig& config, const tasks::TrainSetup& setup) {
  if (config.learn_rate != kRateByWidth) return;
  for (const FieldView& field : setup.model) {
    if (field.name == "dim-emb") config.learn_rate = usual_learn_rate(std::stoll(values_of(field).front()));
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
  std::string text = "Tasks (fovea train --task NAME --help shows the options of one):\n";
  for (const tasks::TaskEntry& entry : list) {
    text +=
        cat("  --task ", entry.name, ": ", entry.summary, "\n      --valid-metrics of ", entry.train().measures, "\n");
  }
  return text;
}

}  // namespace

void train_one_of(std::span<const tasks::TaskEntry> list, const std::vector<std::string>& arguments) {
  const tasks::TaskEntry& chosen = task_of(list, arguments);
  TrainConfig config;
  config.task = chosen.name;
  const tasks::TrainSetup setup = chosen.train();
  Options options(
      "train", "Trains a model; the same command continues a run that was stopped.",
      "[--task NAME] --model DIR --train-sets A [B] --vocabs V [V] [--valid-sets C [D]] [--attention SPEC]");
  options.add(config, "Training");
  options.add(setup.options, cat("Task ", chosen.name));
  options.add(setup.model, cat("Model of the task ", chosen.name));
  std::vector<tasks::TrainSetup> others;
  for (const tasks::TaskEntry& entry : list) {
    if (entry.name == chosen.name) continue;
    const tasks::TrainSetup& other = others.emplace_back(entry.train());
    std::vector<FieldView> fields = other.options;
    fields.insert(fields.end(), other.model.begin(), other.model.end());
    options.add_other(cat("--task ", entry.name), fields);
  }
  options.usual(kUsualOptions);
  options.notes(help_of_tasks(list));
  options.epilogue(
      "  fovea train --model run --train-sets train.en train.de --vocabs joint.spm joint.spm \\\n"
      "      --valid-sets valid.en valid.de --tied-embeddings-all --attention 'topk(8)' --after-batches "
      "20000\n"
      "  fovea train --task language --model run --train-sets train.txt --vocabs bytes --valid-sets "
      "valid.txt \\\n"
      "      --after-batches 20000");
  RunOfConfig run_of_config;
  options.after_config([&](const std::string& path) { run_of_config.adopt(path, config); });
  if (!options.parse(arguments)) return;
  // Process 0 of a team writes the log.
  if (launched_rank() > 0) {
    config.log.clear();
    config.log_level = "error";
  }
  take_options_of_run(config, setup.inputs(), setup.model,
                      [&](std::string_view name) { return options.is_given(name); });
  check_sides_of_run(config, setup.options);
  TrainConfig default_config;
  default_config.task = chosen.name;
  const tasks::TrainSetup default_setup = chosen.train();
  const bool has_default_rate = config.learn_rate == default_config.learn_rate;
  use_rate_by_width(config, setup);
  if (has_default_rate) default_config.learn_rate = config.learn_rate;
  Problems problems;
  add_problems(config, problems);
  setup.add_problems(config, problems);
  problems.throw_if_any();
  setup.check_model();
  require_torch();
  check_log_in_run(config);
  make_folder_of_log(config);
  configure_log(config, setup.inputs());
  run_of_config.say(config, options);
  check_paths_of_config(options, setup.options, setup.inputs());
  const std::vector<FieldView> fields = fields_of(config, setup), defaults = fields_of(default_config, default_setup);
  train::run_training(
      {.config = config, .load = setup.load, .options = run_options(fields, defaults), .team = launched()});
}

int run_train(const std::vector<std::string>& arguments) {
  train_one_of(task_list(), arguments);
  return 0;
}

}  // namespace fovea::app
