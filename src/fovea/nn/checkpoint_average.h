#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "fovea/nn/checkpoint.h"

// The parts of average_checkpoints (checkpoint.h).
namespace fovea::nn {

// checkpoints_to_average, of which there are `count` at least; else an Error that names --model or --last.
std::vector<std::filesystem::path> require_checkpoints(const std::filesystem::path& run, int64_t count);

// The folder to save an average of the run in. Throws an Error that names --output if it is among the run's own
// checkpoints or is a checkpoint from which a run may resume. Brings back what a killed call moved out of its place.
std::filesystem::path checked_output(const std::filesystem::path& run, const std::filesystem::path& output);

// The mean of the models of these checkpoints, oldest first, summed in double. Throws an Error if they are of different
// models.
Checkpoint mean_of(std::span<const std::filesystem::path> checkpoints);

}  // namespace fovea::nn
