#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/app/options.h"
#include "fovea/base/fields.h"
#include "fovea/spec/train_config.h"
#include "fovea/train/run_training.h"

namespace fovea::app {

// The text of train.yml, which `fovea train -c` reads: the program's version and all of `fields`, without the options
// that say what to do with an existing run (--overwrite, --no-reload). Paths stay as they were given; a comment names
// the folder at which relative ones start. An option that is not UTF-8, as YAML is, is left out, with a comment.
std::string run_config(std::span<const FieldView> fields);

// The options of a run with these fields; `defaults` are the same fields of a default-made configuration.
train::RunOptions run_options(std::span<const FieldView> fields, std::span<const FieldView> defaults);

// The run of -c FOLDER/train.yml is the one in FOLDER, even if the folder was renamed, moved or copied since.
class RunOfConfig {
 public:
  // Call this after the file `path` of --config was read into `config`: if it is the train.yml of a run, config.model
  // becomes that run's folder, and a --log within the folder that the file names moves with it.
  void adopt(const std::string& path, TrainConfig& config);
  // Logs a line if config.model is the folder of such a file, which names another one.
  // Also logs the limits of the run that the file keeps, and how to lift them.
  void say(const TrainConfig& config, const Options& options) const;

 private:
  std::string file_;            // the last one that is the train.yml of a run
  std::string folder_, named_;  // of the last file that names another folder than its own
};

// Completes the options of a command that continues the run in config.model: options of the model that `is_given` does
// not know get the values of the run, so that a shorter command does. `model` are the fields of the model's
// configuration. Throws a UsageError if the command names no data (`inputs`) and the run has a train.yml to repeat, and
// an Error if the task is another one or if options of the model that are given differ, with all of them. Vocabularies
// and what follows from them are compared when the trainer has read the data.
void take_options_of_run(const TrainConfig& config, const std::vector<std::vector<std::string>>& inputs,
                         std::span<const FieldView> model, const std::function<bool(std::string_view)>& is_given);

// Throws an Error if the command continues the run in config.model and its two --train-sets are in other languages than
// those of the run so far, by the names of the files, or are the same two files in the other order: a model that learns
// the other direction is lost for its own. `task` are the fields of the task's options.
void check_sides_of_run(const TrainConfig& config, std::span<const FieldView> task);

// Throws an Error for a relative path of one of `inputs` that a file of --config names and that does not exist: such
// paths start at the current folder, which may not be that of the run. `fields` name the inputs.
void check_paths_of_config(const Options& options, std::span<const FieldView> fields,
                           const std::vector<std::vector<std::string>>& inputs);

}  // namespace fovea::app
