#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "fovea/train/state.h"

// A run that diverges goes back to a checkpoint that it saved while its cost was sound, and on with half of the
// learning rate and the batches after the bad ones.
namespace fovea::train {

struct RollBack {
  std::string reason;  // what diverged, for the log
  TrainState state;    // where the run stood: the place in the data is the one to go on from
};

// The rate of a run after `roll_backs` roll-backs is multiplied by this.
double rate_factor(int64_t roll_backs);

// The number of updates of the newest checkpoint that was saved while the cost was sound; nothing without one. Any
// checkpoint counts while no window of the watch has been too high and none was sound.
std::optional<int64_t> sound_checkpoint(const std::filesystem::path& run, const CostWatch& watch);

// Makes `last` name that checkpoint and removes all newer ones; without one removes all, so that the run begins again.
void go_back_in_folder(const std::filesystem::path& run, std::optional<int64_t> sound);

// The state of a run that resumed from the checkpoint, or began again, with the place in the data after the bad
// batches. Undone updates count as skipped.
TrainState state_after(const RollBack& back, TrainState resumed);

}  // namespace fovea::train
