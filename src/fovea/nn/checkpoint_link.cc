#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "fovea/base/aside.h"
#include "fovea/base/aside_folder.h"
#include "fovea/base/checksum_stream.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/replace.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_run.h"
#include "fovea/nn/paths.h"

// The names `last` and `best` of a run. They are links, or folders on a file system without symbolic links.
namespace fovea::nn {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kLinkOption = "--model";

fs::path target_in_run(const fs::path& checkpoint) { return fs::path(kCheckpointsFolder) / checkpoint.filename(); }

std::string sum_of_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  ChecksumStream sum;
  std::vector<char> bytes(size_t{1} << 20);
  while (file.read(bytes.data(), std::ssize(bytes)) || file.gcount() > 0)
    sum.add({bytes.data(), static_cast<size_t>(file.gcount())});
  if (file.bad() || !file.eof()) throw Error(cat("cannot read '", path.string(), "'"));
  return sum.result();
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code failed;
  if (fs::symlink_status(a, failed).type() != fs::file_type::regular || !fs::is_regular_file(b, failed)) return false;
  if (fs::equivalent(a, b, failed)) return true;
  const bool has_same_size = fs::file_size(a, failed) == fs::file_size(b, failed) && !failed;
  return has_same_size && sum_of_file(a) == sum_of_file(b);
}

// Whether each entry of the folder is a file of the checkpoint, so that the folder holds nothing of its own.
bool is_copy_of(const fs::path& folder, const fs::path& checkpoint) {
  for (const fs::path& path : entries_of(folder, kLinkOption))
    if (!is_same_file(path, checkpoint / path.filename())) return false;
  return is_checkpoint(folder, kLinkOption);
}

// Whether run/name may go: nothing is there, or a link, or a copy of a checkpoint that the run has.
bool is_replaceable(const fs::path& run, const std::string& name) {
  std::error_code none_there;
  const fs::file_type type = fs::symlink_status(run / name, none_there).type();
  if (type == fs::file_type::not_found || type == fs::file_type::symlink) return true;
  const std::optional<int64_t> updates = linked_updates(run, name);
  return type == fs::file_type::directory && updates && is_copy_of(run / name, checkpoint_path(run, *updates));
}

void move_aside_unless_replaceable(const fs::path& run, const std::string& name) {
  if (is_replaceable(run, name)) return;
  const fs::path aside = move_aside(run / name, kLinkOption);
  log::warn(cat("'", (run / name).string(), "' was neither a link to a checkpoint nor a copy of one; it is now '",
                aside.string(), "'"));
}

// Makes the folder run/name of hard links to the checkpoint's files, or of copies where there are no hard links either.
void put_copy(const fs::path& place, const fs::path& checkpoint) {
  AsideFolder folder(place);
  for (const fs::path& file : entries_of(checkpoint, kLinkOption)) {
    std::error_code failed;
    if (!fs::is_regular_file(file, failed)) continue;
    const fs::path made = folder.path() / file.filename();
    fs::create_hard_link(file, made, failed);
    if (!failed) continue;
    fs::copy_file(file, made, failed);
    if (failed) throw Error(cat("cannot write '", (place / file.filename()).string(), "': ", failed.message()));
    sync_path(made);
  }
  sync_path(folder.path());
  folder.commit();
}

// Replaces what is at `place` by the link `made`.
void put_link(const fs::path& place, std::vector<Replacement> made) {
  std::error_code failed;
  if (fs::symlink_status(place, failed).type() == fs::file_type::directory) return replace_together(made);
  fs::rename(made.front().written(), place, failed);
  if (failed) throw Error(cat("cannot make the link '", place.string(), "': ", failed.message()));
}

}  // namespace

void link_checkpoint(const fs::path& run, const std::string& name, const fs::path& checkpoint) {
  const fs::path place = run / name;
  MarkedFolder aside(run, place);
  const Replacement link = {.target = place, .shown = place, .aside = &aside};
  std::error_code no_links;
  fs::create_directory_symlink(target_in_run(checkpoint), link.written(), no_links);
  if (no_links && path_exists(place, kLinkOption) && is_copy_of(place, checkpoint)) return;
  move_aside_unless_replaceable(run, name);
  if (no_links) {
    put_copy(place, checkpoint);
  } else {
    put_link(place, {link});
  }
  sync_path(run);
}

void unlink_checkpoint(const fs::path& run, const std::string& name) {
  move_aside_unless_replaceable(run, name);
  std::error_code none_there;
  if (fs::symlink_status(run / name, none_there).type() != fs::file_type::directory)
    return remove_path(run / name, kLinkOption);
  // Moved first: a folder half removed must not look like a checkpoint.
  const MarkedFolder aside(run, run / name);
  rename_path(run / name, aside / "old", kLinkOption);
}

LinkForm link_form(const fs::path& run) {
  const MarkedFolder aside(run, run);
  std::error_code failed;
  fs::create_directory_symlink(kCheckpointsFolder, aside / "link", failed);
  if (!failed) return LinkForm::kLinks;
  write_file(aside / "file", "");
  fs::create_hard_link(aside / "file", aside / "hard-link", failed);
  return failed ? LinkForm::kCopies : LinkForm::kHardLinks;
}

}  // namespace fovea::nn
