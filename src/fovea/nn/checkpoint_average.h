#pragma once
#include <cstdint>
#include <filesystem>

namespace fovea::nn {

// The checkpoints of a run to average: the newest `last` of checkpoints_to_average (checkpoint_run.h) that have at most
// `until` updates (0: any number).
struct AveragedCheckpoints {
  std::filesystem::path run;
  int64_t last = 5, until = 0;
};

// Writes the mean of the models of these checkpoints, summed in double, as a checkpoint of its own. Throws an Error if
// there are fewer than `last`, if they are of different models, or if `output` is among the run's own checkpoints or is
// a checkpoint from which a run may resume.
void average_checkpoints(const AveragedCheckpoints& averaged, const std::filesystem::path& output);

}  // namespace fovea::nn
