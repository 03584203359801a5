#pragma once
#include "fovea/models/whole_segments.h"
#include "fovea/tasks/setup.h"
#include "fovea/train/task.h"

namespace fovea::tasks {

// The whole training of a task. Task is derived from train::Task and made of (TrainConfig, Options, Model, batches an
// update). T has what train_options() needs.
template <class Task, class T = Task>
TrainSetup train_setup() {
  const auto values = std::make_shared<TrainValues<T>>();
  TrainSetup setup = train_options<T>(values);
  setup.load = [values](const TrainConfig& config, int64_t batches_an_update) -> std::unique_ptr<train::Task> {
    if constexpr (requires { routes_whole_segments(values->model); }) models::warn_of_whole_segments(values->model);
    if constexpr (requires { log_fallback(values->model); }) log_fallback(values->model);
    return std::make_unique<Task>(config, values->options, values->model, batches_an_update);
  };
  return setup;
}

// The content of the entries of the list of tasks in a program with libtorch: options and work.
struct WithWork {
  template <class T>
  static TrainSetup train() {
    return train_setup<typename T::Task, T>();
  }
  template <auto run>
  static CommandSetup command() {
    return command_setup(run);
  }
};

}  // namespace fovea::tasks
