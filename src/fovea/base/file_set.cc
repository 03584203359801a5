#include "fovea/base/file_set.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <set>

#include "fovea/base/file.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace fs = std::filesystem;
namespace {

constexpr size_t kBuffer = 1 << 16;
// New content and old, aside; the process's number follows.
constexpr std::string_view kNew = ".tmp", kOld = ".old";

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// Whether `name` is one that a process which lives no more gave to `path`'s new or old content.
bool is_leftover(const std::string& name, const fs::path& path, std::string_view aside) {
  const std::string stem = cat(path.filename().string(), aside);
  if (!name.starts_with(stem)) return false;
  const std::string_view digits = std::string_view(name).substr(stem.size());
  pid_t process = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), process);
  if (error != std::errc() || end != digits.data() + digits.size() || process <= 0) return false;
  return kill(process, 0) != 0 && errno == ESRCH;
}

void remove_leftovers(const fs::path& path) {
  std::error_code ignored;
  for (fs::directory_iterator entry(folder_of(path), ignored), end; !ignored && entry != end; entry.increment(ignored))
    if (is_leftover(entry->path().filename(), path, kNew) || is_leftover(entry->path().filename(), path, kOld))
      unlink(entry->path().c_str());
}

}  // namespace

FileSet::~FileSet() {
  for (const File& file : files_)
    if (!file.temporary.empty() && !file.is_in_place) unlink(file.temporary.c_str());
}

void FileSet::begin(const fs::path& path) {
  end();
  File file = {.target = output_target(path), .shown = path};
  if (file.target.replaces) {
    remove_leftovers(file.target.path);
    file.temporary = file.target.path;
    file.temporary += cat(kNew, getpid());
  }
  open_.emplace(open_output(file.target, file.temporary), "write", path);
  files_.push_back(std::move(file));
}

void FileSet::append(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBuffer) flush();
}

void FileSet::flush() {
  throw_if_interrupted("writing");
  write_all(open_->get(), buffer_, files_.back().shown);
  buffer_.clear();
}

void FileSet::end() {
  if (!open_) return;
  flush();
  if (!files_.back().temporary.empty()) sync_and_close(*open_, files_.back().shown);
  open_.reset();
}

void FileSet::commit() {
  end();
  std::erase_if(files_, [](const File& file) { return file.temporary.empty(); });
  std::set<fs::path> folders;
  for (const File& file : files_) folders.insert(folder_of(file.target.path));
  try {
    move_old_aside();
    for (const fs::path& folder : folders) sync_path(folder);
    for (File& file : files_) {
      if (rename(file.temporary.c_str(), file.target.path.c_str()) != 0) fail_on_file("rename onto", file.shown, errno);
      file.is_in_place = true;
    }
    for (const fs::path& folder : folders) sync_path(folder);
  } catch (...) {
    restore_old();
    throw;
  }
  for (const File& file : files_)
    if (!file.old.empty()) unlink(file.old.c_str());
  files_.clear();
}

void FileSet::move_old_aside() {
  for (File& file : files_) {
    fs::path old = file.target.path;
    old += cat(kOld, getpid());
    if (rename(file.target.path.c_str(), old.c_str()) == 0) {
      file.old = std::move(old);
    } else if (errno != ENOENT) {
      fail_on_file("replace", file.shown, errno);
    }
  }
}

// New ones first: no old one may stand beside them.
void FileSet::restore_old() {
  for (const File& file : files_)
    if (file.is_in_place) unlink(file.target.path.c_str());
  for (const File& file : files_)
    if (!file.old.empty()) (void)rename(file.old.c_str(), file.target.path.c_str());
}

}  // namespace fovea
