#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "fovea/nn/checkpoint.h"

// Which checkpoint load_checkpoint takes (checkpoint.h), and how the log says so.
namespace fovea::nn {

struct ChosenCheckpoint {
  std::filesystem::path folder;  // a checkpoint, or one of a run's links to it
  std::string problem = {};      // why it may not be the one that was asked for; "" if it is
};

// The checkpoint whose model `folder` stands for: itself, or a run's best, last or newest. Throws an Error that begins
// with `option` if there is none.
ChosenCheckpoint choose_model(const std::filesystem::path& folder, std::string_view option);

// The problem with the link `last` of a run, whose newest checkpoint counts then; "" if there is none.
std::string problem_of_last(const std::filesystem::path& run);

// Which checkpoint was taken for `folder`: "run: checkpoint run/checkpoints/update-00000400, 400 updates, best
// bleu 30.1 after update 400".
std::string description_of(const std::filesystem::path& folder, const Checkpoint& checkpoint);

// Logs that at the level debug. A line that was logged already is not repeated, because some commands load a model
// several times.
void say_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);

// Warns that `taken` counts because of `problem`, once; does nothing if there is no problem.
void warn_of_choice(const std::string& problem, const std::filesystem::path& taken);

// load_checkpoint without its line in the log, for callers that say themselves which checkpoints they read.
Checkpoint read_checkpoint(const std::filesystem::path& folder, Load what, std::string_view option = "--model");

}  // namespace fovea::nn
