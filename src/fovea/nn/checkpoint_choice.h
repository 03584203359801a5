#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "fovea/nn/identity.h"

// The checkpoint that load_checkpoint takes (checkpoint.h): which one, what model it is, and how the log says so.
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

// The contents of a checkpoint's config.yml.
struct CheckpointHead {
  Identity identity;  // task and configuration; no files
  std::filesystem::path folder;
};

// Reads the config.yml of the checkpoint that load_checkpoint would load as kModel. Throws an Error that begins with
// `option` if there is no checkpoint.
CheckpointHead read_head(const std::filesystem::path& folder, std::string_view option = "--model");
std::string task_of_checkpoint(const std::filesystem::path& folder, std::string_view option = "--model");

// Throws an Error that begins with `option` unless `folder` is a folder.
void require_folder(const std::filesystem::path& folder, std::string_view option);

// Describes the checkpoint that was taken for `folder`: "run: checkpoint run/checkpoints/update-00000400, 400 updates,
// best bleu 30.1 after update 400".
std::string description_of(const std::filesystem::path& folder, const std::filesystem::path& checkpoint);

// Logs that at the level debug. A line that was logged already is not repeated, because some commands load a model
// several times.
void say_checkpoint(const std::filesystem::path& folder, const std::filesystem::path& checkpoint);

// Warns that `taken` counts because of `problem`, once; does nothing if there is no problem.
void warn_of_choice(const std::string& problem, const std::filesystem::path& taken);

}  // namespace fovea::nn
