#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "fovea/nn/checkpoint_choice.h"
#include "fovea/nn/checkpoint_run.h"
#include "fovea/nn/identity.h"
#include "fovea/nn/safetensors.h"

// A checkpoint is a folder: model.safetensors, config.yml (the task, every field of the model's configuration, and
// fovea's version), the files of the model's identity such as vocabularies, and, for resuming, optimizer.safetensors
// and progress.yml. checksums.yml names every file, and every tensor in it, with its XXH3 sum and is checked on
// loading. The folder is written aside, synced and renamed: if the program is killed at any byte, the last good
// checkpoint loads.
// A run's folder has checkpoints/update-00001000/ ..., and the names `last` and `best` are links to two of them, or
// copies where the file system has no links.
namespace fovea::nn {

struct Checkpoint {
  Identity identity;
  NamedTensors model;                           // parameters and buffers
  NamedTensors optimizer;                       // moments, and the task's carried state; empty for averaged models
  std::map<std::string, std::string> progress;  // updates, epoch, position, best values ..., for resuming
  std::filesystem::path folder;                 // that it was read from
};

void save_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);

enum class Load : uint8_t { kModel, kAll };
// Loads the checkpoint `folder`. If `folder` is a run's folder, kModel loads its `best` (`last` if validation chose
// none) and kAll its `last`. Throws an Error that names the file and the tensor if anything is damaged, missing or from
// another version. When a run resumes (kAll on a run's folder), it instead warns and loads the newest intact checkpoint
// before that one. kModel logs at the level debug which checkpoint it loads, and warns if the run's link is missing or
// leads nowhere.
// `option` is the flag that named the folder.
Checkpoint load_checkpoint(const std::filesystem::path& folder, Load what, std::string_view option = "--model");

// Like load_checkpoint(), without its line in the log, for callers that name the checkpoints that they read.
Checkpoint read_checkpoint(const std::filesystem::path& folder, Load what, std::string_view option = "--model");

}  // namespace fovea::nn
