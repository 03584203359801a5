#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/collective.h"
#include "fovea/spec/train_config.h"

namespace fovea::train {

class Task;

struct UpdateReport {
  int64_t epoch = 0, updates = 0;
  double cost = 0;  // mean loss per unit of BatchLoss::weight
  double gradient_norm = 0, learn_rate = 0;
};

// The options of a run, as its log and its folder show them.
struct RunOptions {
  std::string text;                                                // of train.yml; empty: none is written
  std::vector<std::pair<std::string, std::string>> changed = {};   // name and value of those that are not the defaults
  std::vector<std::pair<std::string, std::string>> defaults = {};  // of the others
};

// One run: its configuration, and how its task is made.
struct Run {
  TrainConfig config;
  // Called once threads are set; `batches_an_update` is how many batches make an update.
  std::function<std::unique_ptr<Task>(const TrainConfig& config, int64_t batches_an_update)> load;
  RunOptions options = {};
  std::function<void(const UpdateReport&)> on_update = nullptr;  // after each update
  Collective& team = alone();                                    // the processes that train together
};

// Trains in the folder config.model, and continues from its last intact checkpoint if it has one. The run is exact: the
// same seed gives the same files, and a run that is stopped and resumed is bit for bit the run that never stopped.
// In a team, process 0 does all of this, and the others compute their part of every update until it ends (team.h).
// SIGINT saves and throws Interrupted; the other signals that stop (signals.h) save and return.
void run_training(const Run& run);

}  // namespace fovea::train
