#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Which checkpoints a run has: their folders and links (checkpoint.h says where they lie), not what is in them.
namespace fovea::nn {

// Whether the folder is one checkpoint, by its files' names. `option` is the flag that named it, here and below.
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

// The number in the name of a run's checkpoint.
int64_t updates_of_checkpoint(const std::filesystem::path& path);

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
  std::optional<int64_t> sound = {};  // keeps the newest checkpoint of at most so many updates too
};
void prune_checkpoints(const std::filesystem::path& run, const Pruning& pruning);

// Removes one; if the process is killed meanwhile, no half of it is left that looks like a checkpoint.
void remove_checkpoint(const std::filesystem::path& path);

// Removes what a killed process left half written, and moves what has a checkpoint's name but is none aside
// (update-00001000.1 ...). Only for the one process that writes to the run.
void clean_checkpoints(const std::filesystem::path& run);
// Removes all of them; throws before the first when anything else lies in their folder.
void remove_checkpoints(const std::filesystem::path& run);

}  // namespace fovea::nn
