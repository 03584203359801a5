#include "fovea/base/file_set.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <set>
#include <utility>

#include "fovea/base/aside.h"
#include "fovea/base/commit_mark.h"
#include "fovea/base/file.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace fs = std::filesystem;
namespace {

constexpr size_t kBuffer = 1 << 16;

}  // namespace

FileSet::FileSet(const std::vector<fs::path>& paths) { finish_killed_commits(paths); }

FileSet::~FileSet() { remove_temporary(); }

void FileSet::remove_temporary() {
  for (const File& file : files_)
    if (!file.temporary.empty() && !file.is_in_place) unlink(file.temporary.c_str());
}

void FileSet::begin(const fs::path& path) {
  end();
  File file = {.target = output_target(path), .shown = path};
  if (file.target.replaces) file.temporary = aside_of(file.target.path, kNewAside);
  file.open = std::make_unique<Descriptor>(open_output(file.target, file.temporary), "write", path);
  files_.push_back(std::move(file));
}

void FileSet::append(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBuffer) flush();
}

void FileSet::flush() {
  throw_if_interrupted("writing");
  write_all(files_.back().open->get(), buffer_, files_.back().shown);
  buffer_.clear();
}

void FileSet::end() {
  if (files_.empty() || !files_.back().open) return;
  flush();
  if (files_.back().temporary.empty()) {
    files_.back().open.reset();  // the reader of a pipe waits for its end
  } else {
    sync_file(*files_.back().open, files_.back().shown);
  }
}

void FileSet::commit() {
  end();
  std::erase_if(files_, [](const File& file) { return file.temporary.empty(); });
  if (files_.size() == 1) put_in_place();
  if (files_.size() > 1) replace_all();
  for (const File& file : files_)
    for (const fs::path& leftover : leftovers_of(file.target.path)) unlink(leftover.c_str());
  files_.clear();
}

// A single file is replaced by one rename; a set has a mark meanwhile.
void FileSet::put_in_place() {
  std::set<fs::path> folders;
  for (File& file : files_) {
    if (rename(file.temporary.c_str(), file.target.path.c_str()) != 0) fail_on_file("rename onto", file.shown, errno);
    file.is_in_place = true;
    folders.insert(folder_of(file.target.path));
  }
  for (const fs::path& folder : folders) sync_path(folder);
}

void FileSet::replace_all() {
  std::vector<fs::path> targets;
  for (const File& file : files_) targets.push_back(file.target.path);
  std::optional<CommitMark> mark(std::in_place, targets);
  try {
    move_old_aside();
    put_in_place();
  } catch (...) {
    restore_old();
    mark.reset();  // while it is there, the next call would put the new files in place
    remove_temporary();
    throw;
  }
  for (const File& file : files_)
    if (!file.old.empty()) unlink(file.old.c_str());
}

void FileSet::move_old_aside() {
  for (File& file : files_) {
    fs::path old = aside_of(file.target.path, kOldAside);
    if (rename(file.target.path.c_str(), old.c_str()) == 0) {
      file.old = std::move(old);
    } else if (errno != ENOENT) {
      fail_on_file("replace", file.shown, errno);
    }
  }
}

// New ones first: no old one may stand beside them. They go back to where the mark says, in case the process is killed
// meanwhile.
void FileSet::restore_old() {
  for (File& file : files_)
    if (file.is_in_place) file.is_in_place = rename(file.target.path.c_str(), file.temporary.c_str()) != 0;
  for (const File& file : files_)
    if (!file.old.empty()) (void)rename(file.old.c_str(), file.target.path.c_str());
}

void finish_killed_commits(const std::vector<fs::path>& paths) {
  std::set<fs::path> folders;
  for (const fs::path& path : paths) folders.insert(folder_of(output_target(path).path));
  finish_marked_commits(std::vector<fs::path>(folders.begin(), folders.end()));
}

}  // namespace fovea
