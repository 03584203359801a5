#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The checkpoints of a run: their folders and links (checkpoint.h says where they lie), not their contents.
namespace fovea::nn {

// Whether the folder is one checkpoint, by its files' names. `option` is the flag that named it, here and below.
bool is_checkpoint(const std::filesystem::path& folder, std::string_view option = "--model");

// Returns a run's checkpoints, oldest first.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run,
                                                    std::string_view option = "--model");

// Returns the checkpoints from which the run may resume, oldest first. A checkpoint newer than the one that `last`
// names is left out: either the user moved the link back, or a killed run had not linked it yet.
std::vector<std::filesystem::path> checkpoints_to_resume(const std::filesystem::path& run);

// Returns the checkpoints whose newest `count` are averaged, oldest first: the regular ones (see Pruning) and the
// newest, without one kept only as the best. Returns all checkpoints to resume from if these are fewer than `count`. In
// both cases, leaves out checkpoints of more than `until` updates (0: none).
std::vector<std::filesystem::path> checkpoints_to_average(const std::filesystem::path& run, int64_t count,
                                                          int64_t until);

// Returns the folder in which a run keeps the checkpoint after this number of updates.
std::filesystem::path checkpoint_path(const std::filesystem::path& run, int64_t updates);

// The number in the name of a run's checkpoint.
int64_t updates_of_checkpoint(const std::filesystem::path& path);

// Returns the updates of the checkpoint that run/name (`last` or `best`) is a link to, or a copy of.
std::optional<int64_t> linked_updates(const std::filesystem::path& run, const std::string& name);

// Makes run/name a link to this checkpoint of the run, in one step. On a file system without symbolic links, it is a
// folder of hard links to the checkpoint's files, or without hard links, of copies. Replaces a link, or a folder that
// is a copy of a checkpoint of the run. Any other folder of that name is moved aside (last.1 ...).
void link_checkpoint(const std::filesystem::path& run, const std::string& name,
                     const std::filesystem::path& checkpoint);
// Removes run/name; what link_checkpoint() does not replace is moved aside.
void unlink_checkpoint(const std::filesystem::path& run, const std::string& name);

// Returns what link_checkpoint() makes in the run's folder.
enum class LinkForm : uint8_t { kLinks, kHardLinks, kCopies };
LinkForm link_form(const std::filesystem::path& run);

// prune_checkpoints() removes all checkpoints except the ones that `best` and `last` name and the newest `keep` regular
// ones, whose updates are a multiple of --save-freq. A checkpoint made by an interruption is not regular and goes with
// the next. A checkpoint's progress records its --save-freq.
struct Pruning {
  int64_t keep = 1;
  std::optional<int64_t> sound = {};  // keeps the newest checkpoint of at most so many updates too
};
void prune_checkpoints(const std::filesystem::path& run, const Pruning& pruning);

// The path of something in a checkpoint's folder that its checksums do not name, such as a user's notes; "" if there is
// nothing.
std::string other_than_checkpoint(const std::filesystem::path& checkpoint);

// Removes one; if the process is killed meanwhile, no half of it is left that looks like a checkpoint. Other files
// in its folder stay, with a warning.
void remove_checkpoint(const std::filesystem::path& path);

// Removes what a killed process left half written, and moves aside (update-00001000.1 ...) each entry with a
// checkpoint's name that is not a checkpoint. Only the one process that writes to the run may call this.
void clean_checkpoints(const std::filesystem::path& run);
// Removes all checkpoints of the run, and its links to them; throws before the first removal if anything else lies in
// their folder or in theirs.
void remove_checkpoints(const std::filesystem::path& run);

}  // namespace fovea::nn
