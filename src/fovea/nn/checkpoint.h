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
// Loads the checkpoint `folder`. If `folder` is a run's folder, kModel loads its `best` (`last` if validation chose
// none) and kAll its `last`. Throws an Error that names the file and the tensor if anything is damaged, missing or from
// another version. When a run resumes (kAll on a run's folder), it instead warns and loads the newest intact checkpoint
// before that one. kModel logs at the level debug which checkpoint it loads, and warns if the run's link is missing or
// leads nowhere.
// `option` is the flag that named the folder.
Checkpoint load_checkpoint(const std::filesystem::path& folder, Load what, std::string_view option = "--model");

// Returns the task of the checkpoint that load_checkpoint would load as kModel, from its config.yml alone. Throws an
// Error if there is no checkpoint.
std::string task_of_checkpoint(const std::filesystem::path& folder, std::string_view option = "--model");

// Returns whether the folder is one checkpoint, by the names of its files. Here and below, `option` is as above.
bool is_checkpoint(const std::filesystem::path& folder, std::string_view option = "--model");

// Returns a run's checkpoints, oldest first.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run,
                                                    std::string_view option = "--model");

// Returns the checkpoints from which the run may resume, oldest first. A checkpoint newer than the one that `last`
// names is left out: either the user moved the link back, or a killed run had not linked it yet.
std::vector<std::filesystem::path> checkpoints_to_resume(const std::filesystem::path& run);

// Returns the checkpoints whose newest `count` are averaged, oldest first: the regular ones (see Pruning) and the
// newest, without one kept only as the best. Returns all checkpoints to resume from if these are fewer than `count`.
std::vector<std::filesystem::path> checkpoints_to_average(const std::filesystem::path& run, int64_t count);

// Returns the folder in which a run keeps the checkpoint after this number of updates.
std::filesystem::path checkpoint_path(const std::filesystem::path& run, int64_t updates);

// Makes run/name (`last` or `best`) a link to this checkpoint of the run, replacing an older link in one step. If a
// folder has that name, because a copy followed the links, it is moved aside (last.1 ...).
void link_checkpoint(const std::filesystem::path& run, const std::string& name,
                     const std::filesystem::path& checkpoint);
// Removes the link run/name; a folder of that name is moved aside as link_checkpoint() does.
void unlink_checkpoint(const std::filesystem::path& run, const std::string& name);

// prune_checkpoints() removes all checkpoints except those that `best` and `last` name and the newest `keep` regular
// ones, whose updates are a multiple of --save-freq. A checkpoint made by an interruption is not regular and goes with
// the next. A checkpoint's progress records its --save-freq; `every` stands for it if the progress records none.
struct Pruning {
  int64_t keep = 1, every = 1;
};
void prune_checkpoints(const std::filesystem::path& run, const Pruning& pruning);

// Removes what a killed process left half written, and moves aside (update-00001000.1 ...) each entry with a
// checkpoint's name that is not a checkpoint. Only the one process that writes to the run may call this.
void clean_checkpoints(const std::filesystem::path& run);
// Removes all checkpoints of the run; throws before the first removal if anything else lies in their folder.
void remove_checkpoints(const std::filesystem::path& run);

// Writes the mean of the models of the newest `count` of checkpoints_to_average, summed in double, as a checkpoint of
// its own. Throws if they are of different models, or if `output` is a checkpoint from which a run may resume.
void average_checkpoints(const std::filesystem::path& run, int64_t count, const std::filesystem::path& output);

}  // namespace fovea::nn
