#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/models/whole_segments.h"
#include "fovea/spec/config_problems.h"
#include "fovea/spec/logging.h"
#include "fovea/spec/train_config.h"
#include "fovea/tasks/model_validation.h"
#include "fovea/train/measure.h"
#include "fovea/train/task.h"

// The interface between the program and a task: its options as values, and the functions of its commands.
namespace fovea::tasks {

using InputFiles = std::vector<std::vector<std::string>>;

// The training of one task. The functions share one object of options, which the fields point into.
struct TrainSetup {
  std::vector<FieldView> options, model;  // fields of the task's own options and of its model's configuration
  std::string measures;                   // names for --valid-metrics
  // Sets the newest defaults (spec/defaults.h) of all options; to call before any is read.
  std::function<void(TrainConfig& config)> use_defaults;
  // Adds what is wrong with the options and with the task's part of `config`.
  std::function<void(const TrainConfig& config, Problems& problems)> add_problems;
  std::function<void()> check_model;   // throws a UsageError
  std::function<InputFiles()> inputs;  // files that training reads
  std::function<std::unique_ptr<train::Task>(const TrainConfig& config, int64_t batches_an_update)> load;
  // The model of config.model, a run or a checkpoint, with the validation data of the options. Throws a UsageError
  // unless those are given. Null: the task has no validation apart from a training.
  std::function<ModelValidation(const TrainConfig& config)> load_validation;
};

// T::Options has fields(), inputs() and a function add_problems(); T::Model has fields() and validate(). T is made of
// (TrainConfig, Options, Model, batches an update), and T::known_measures() are its measures. T::load_validation, from
// (TrainConfig, Options), may be there, and beside T::Options a function use_defaults(TrainConfig&, Options&, Model&),
// which sets the newest defaults.
template <class T>
TrainSetup train_setup() {
  struct Values {
    typename T::Options options;
    typename T::Model model;
  };
  auto values = std::make_shared<Values>();
  TrainSetup setup;
  setup.options = field_views(values->options);
  setup.model = field_views(values->model);
  setup.measures = train::names_of(T::known_measures());
  setup.use_defaults = [values](TrainConfig& config) {
    config.defaults = kNewestDefaults;
    if constexpr (requires { use_defaults(config, values->options, values->model); })
      use_defaults(config, values->options, values->model);
  };
  setup.add_problems = [values](const TrainConfig& config, Problems& problems) {
    add_problems(values->options, problems);
    train::check_measures(T::known_measures(), config.valid_metrics, problems);
  };
  setup.check_model = [values] {
    validate(values->model);
    if constexpr (requires { refuse_idle_options(values->model); }) refuse_idle_options(values->model);
  };
  setup.inputs = [values] { return values->options.inputs(); };
  setup.load = [values](const TrainConfig& config, int64_t batches_an_update) -> std::unique_ptr<train::Task> {
    if constexpr (requires { routes_whole_segments(values->model); }) models::warn_of_whole_segments(values->model);
    if constexpr (requires { log_fallback(values->model); }) log_fallback(values->model);
    return std::make_unique<T>(config, values->options, values->model, batches_an_update);
  };
  if constexpr (requires(const TrainConfig& config) { T::load_validation(config, values->options); })
    setup.load_validation = [values](const TrainConfig& config) { return T::load_validation(config, values->options); };
  return setup;
}

// A command on a trained model, as one task does it.
struct CommandSetup {
  std::vector<FieldView> fields;
  std::function<void()> run;  // checks the options first
};

// Config has fields(), inputs(), --log and --output (spec/logging.h); `run` checks it with validate().
template <class Config>
CommandSetup command_setup(int64_t (*run)(const Config&)) {
  auto config = std::make_shared<Config>();
  return {field_views(*config), [config, run] {
            configure_log(*config, config->inputs());
            run(*config);
          }};
}

// A line of the list of tasks. A null function: models of this task have no such command.
struct TaskEntry {
  std::string_view name, summary;
  TrainSetup (*train)() = nullptr;
  CommandSetup (*translate)() = nullptr;
  CommandSetup (*score)() = nullptr;
  CommandSetup (*generate)() = nullptr;
  CommandSetup (*align)() = nullptr;
  CommandSetup (*filter)() = nullptr;
  CommandSetup (*tag)() = nullptr;
  CommandSetup (*report)() = nullptr;
  CommandSetup (*caption)() = nullptr;
  CommandSetup (*analyze)() = nullptr;
};

}  // namespace fovea::tasks
