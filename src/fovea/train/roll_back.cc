#include "fovea/train/roll_back.h"

#include <cmath>

#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_run.h"

namespace fovea::train {
namespace fs = std::filesystem;
namespace {}  // namespace

double rate_factor(int64_t roll_backs) { return std::ldexp(1.0, -static_cast<int>(roll_backs)); }

std::optional<int64_t> sound_checkpoint(const fs::path& run, const CostWatch& watch) {
  const bool is_all_sound = watch.high == 0 && watch.sound == 0;
  std::optional<int64_t> found;
  for (const fs::path& path : nn::checkpoints_to_resume(run)) {
    if (is_all_sound || nn::updates_of_checkpoint(path) <= watch.sound) found = nn::updates_of_checkpoint(path);
  }
  return found;
}

void go_back_in_folder(const fs::path& run, std::optional<int64_t> sound) {
  if (sound) {
    nn::link_checkpoint(run, nn::kLastLink, nn::checkpoint_path(run, *sound));
  } else {
    for (const char* name : nn::kCheckpointLinks) nn::unlink_checkpoint(run, name);
  }
  for (const fs::path& path : nn::list_checkpoints(run)) {
    if (!sound || nn::updates_of_checkpoint(path) > *sound) nn::remove_checkpoint(path);
  }
}

TrainState state_after(const RollBack& back, TrainState resumed) {
  resumed.epoch = back.state.epoch;
  resumed.batch = back.state.batch;
  resumed.seconds = back.state.seconds;
  resumed.skipped = back.state.skipped + back.state.updates - resumed.updates;
  resumed.skipped_in_a_row = 0;
  resumed.roll_backs = back.state.roll_backs + 1;
  resumed.watch.high = 0;
  resumed.watch.cost = resumed.watch.weight = 0;
  return resumed;
}

}  // namespace fovea::train
