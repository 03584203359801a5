#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/base/collective.h"
#include "fovea/train/run_training.h"
#include "fovea/train/updater.h"

// A training by several processes. Process 0 runs the Trainer: it alone decides, validates, logs and writes. The others
// have the same data, the same task and copies of the weights; they do what process 0 asks, and compute their share of
// every update (updater.h).
namespace fovea::train {

// The orders of process 0 to all.
enum class TeamWork : int64_t {
  kCompare,   // compare_team()
  kState,     // take over weights, moments and buffers
  kUpdate,    // make an update
  kValidate,  // validate, for tasks that share it
  kEnd
};
struct TeamOrder {
  TeamWork work = TeamWork::kEnd;
  UpdateInput input;
};
// Process 0 sends an order; the others get it.
void send(Collective& team, TeamOrder order);
TeamOrder receive(Collective& team);

// The text by which processes must agree: data, model, options, processor.
std::string team_text(const Task& task, const RunOptions& options);
// Throws an Error in process 0 that names the first process whose text is another one, and the first difference.
void compare_team(Collective& team, const std::string& text);

// `config` for a team: batches an update for each process, and threads that share the processors of this host, unless
// they are given.
TrainConfig config_of_team(Collective& team, TrainConfig config);

// Process 0 makes the others validate too, if the task shares it.
void send_validation(Collective& team, const Task& task);

// The work of all processes but the first, until that one ends it.
void work_in_team(const Run& run, Collective& team);

}  // namespace fovea::train
