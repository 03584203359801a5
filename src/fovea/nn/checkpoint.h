#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/nn/identity.h"
#include "fovea/nn/safetensors.h"

// A checkpoint is a folder: model.safetensors, config.yml (the task, every field of the model's configuration, and
// fovea's version), the files of the model's identity such as vocabularies, and, for resuming, optimizer.safetensors
// and progress.yml. checksums.yml names every file, and every tensor in it, with its XXH3 sum and is checked on
// loading. The folder is written aside, synced and renamed: if the program is killed at any byte, the last good
// checkpoint loads.
// A run's folder has checkpoints/update-00001000/ ..., and the names `last` and `best` are links to two of them.
namespace fovea::nn {

struct Checkpoint {
  Identity identity;
  NamedTensors model;                           // parameters and buffers
  NamedTensors optimizer;                       // moments, and the task's carried state; empty for averaged models
  std::map<std::string, std::string> progress;  // updates, epoch, position, best values ..., for resuming
  std::filesystem::path folder;                 // that it was read from
};

void save_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);

enum class Load : uint8_t { kIdentity, kModel, kAll };  // kIdentity: task and configuration alone
// `folder` is a checkpoint, or a run's folder: then its `best` (kModel; `last` if no validation chose one) or its
// `last` (kAll). What is damaged, missing or of another version throws an Error that names the file and the tensor;
// only kAll of a run's folder, which is how a run resumes, warns and goes back to the newest whole one before it.
// kModel logs which checkpoint it is, at the level debug; a link of the run that leads nowhere, or is missing, is a
// warning.
// `option` is the flag that named the folder.
Checkpoint load_checkpoint(const std::filesystem::path& folder, Load what, std::string_view option = "--model");

// The task of the checkpoint that load_checkpoint would load as kModel, from its config.yml alone. Throws an Error if
// there is no checkpoint.
std::string task_of_checkpoint(const std::filesystem::path& folder, std::string_view option = "--model");

// Whether the folder is one checkpoint, by its files' names. `option` is as above, here and below.
bool is_checkpoint(const std::filesystem::path& folder, std::string_view option = "--model");

// A run's checkpoints, oldest first.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run,
                                                    std::string_view option = "--model");

// Those that the run may go on from, oldest first: what is newer than the one that `last` names was set aside by the
// user who moved the link back, or is not linked yet.
std::vector<std::filesystem::path> checkpoints_to_resume(const std::filesystem::path& run);

// Those of them whose newest `count` are for averaging: the newest, for a run may end at any update, and before it the
// regular ones (see Pruning), without one kept as the best alone; all where that leaves fewer than `count`.
std::vector<std::filesystem::path> checkpoints_to_average(const std::filesystem::path& run, int64_t count);

// Where a run keeps the checkpoint after so many updates.
std::filesystem::path checkpoint_path(const std::filesystem::path& run, int64_t updates);

// Makes run/name (`last`, `best`) a link to this checkpoint of the run, replacing an older link in one step. A folder
// of that name, as copies have it that follow links, is moved aside (last.1 ...).
void link_checkpoint(const std::filesystem::path& run, const std::string& name,
                     const std::filesystem::path& checkpoint);
// Removes the link; moves a folder of that name aside as above.
void unlink_checkpoint(const std::filesystem::path& run, const std::string& name);

// Removes all checkpoints but those that `best` and `last` name and the newest `keep` regular ones, which a multiple of
// --save-freq updates made: one that an interruption made serves to resume and goes with the next. The --save-freq is
// what the checkpoint's progress says, for a run may go on with another; `every` where that says none.
struct Pruning {
  int64_t keep = 1, every = 1;
};
void prune_checkpoints(const std::filesystem::path& run, const Pruning& pruning);

// Removes what a killed process left half written, and moves what has a checkpoint's name but is none aside
// (update-00001000.1 ...). Only for the one process that writes to the run.
void clean_checkpoints(const std::filesystem::path& run);
// Removes all of them; throws before the first when anything else lies in their folder.
void remove_checkpoints(const std::filesystem::path& run);

// The mean of the models of the newest `count` of checkpoints_to_average, summed in double, as a checkpoint of its own.
// Throws where they are of different models, and where `output` is a checkpoint that a run may go on from.
void average_checkpoints(const std::filesystem::path& run, int64_t count, const std::filesystem::path& output);

}  // namespace fovea::nn
