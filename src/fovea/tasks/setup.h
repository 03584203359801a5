#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/spec/config_problems.h"
#include "fovea/spec/logging.h"
#include "fovea/spec/train_config.h"
#include "fovea/train/measure.h"

namespace fovea::train {
class Task;
}

// The interface between the program and a task: its options as values, and the work of its commands. The options need
// no libtorch, so the program has answered --help and refused wrong options before it loads libtorch (app/torch.h).
namespace fovea::tasks {

using InputFiles = std::vector<std::vector<std::string>>;

// The training of one task. The functions share one object of options, which the fields point into.
struct TrainSetup {
  std::vector<FieldView> options, model;  // fields of the task's own options and of its model's configuration
  std::string measures;                   // names for --valid-metrics
  // Adds what is wrong with the options and with the task's part of `config`.
  std::function<void(const TrainConfig& config, Problems& problems)> add_problems;
  std::function<void()> check_model;   // throws a UsageError
  std::function<InputFiles()> inputs;  // files that training reads

  // The work, which train_setup() adds (train_setup.h).
  std::function<std::unique_ptr<train::Task>(const TrainConfig& config, int64_t batches_an_update)> load = nullptr;
};

template <class T>
struct TrainValues {
  typename T::Options options;
  typename T::Model model;
};

// The setup without the work. T::Options has fields(), inputs() and a function add_problems(); T::Model has fields()
// and validate(). T::known_measures() are the measures of validation.
template <class T>
TrainSetup train_options(const std::shared_ptr<TrainValues<T>>& values = std::make_shared<TrainValues<T>>()) {
  TrainSetup setup;
  setup.options = field_views(values->options);
  setup.model = field_views(values->model);
  setup.measures = train::names_of(T::known_measures());
  setup.add_problems = [values](const TrainConfig& config, Problems& problems) {
    add_problems(values->options, problems);
    train::check_measures(T::known_measures(), config.valid_metrics, problems);
  };
  setup.check_model = [values] {
    validate(values->model);
    if constexpr (requires { refuse_idle_options(values->model); }) refuse_idle_options(values->model);
  };
  setup.inputs = [values] { return values->options.inputs(); };
  return setup;
}

// A command on a trained model, as one task does it.
struct CommandSetup {
  std::vector<FieldView> fields;
  std::function<void()> run;  // checks the options first
};

// Config has fields(), inputs(), --log and --output (spec/logging.h); `run` checks it with validate(), and is null
// in a program without libtorch.
template <class Config>
CommandSetup command_setup(int64_t (*run)(const Config&)) {
  auto config = std::make_shared<Config>();
  return {field_views(*config), [config, run] {
            configure_log(*config, config->inputs());
            run(*config);
          }};
}

// The content of the entries of the list of tasks in a program without libtorch: options alone. WithWork
// (train_setup.h) takes its place in a program with libtorch.
struct OptionsAlone {
  template <class T>
  static TrainSetup train() {
    return train_options<T>();
  }
  template <auto run>
  static CommandSetup command() {
    return command_setup(static_cast<decltype(run)>(nullptr));
  }
};

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
