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
constexpr std::string_view kAside = ".tmp";  // and the process's number

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// Whether `name` is one that a process which lives no more gave to `path`'s new content.
bool is_leftover(const std::string& name, const fs::path& path) {
  const std::string stem = cat(path.filename().string(), kAside);
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
    if (is_leftover(entry->path().filename(), path)) unlink(entry->path().c_str());
}

}  // namespace

FileSet::~FileSet() {
  for (const File& file : files_)
    if (!file.temporary.empty()) unlink(file.temporary.c_str());
}

void FileSet::begin(const fs::path& path) {
  end();
  File file = {.target = output_target(path), .shown = path, .temporary = {}};
  if (file.target.replaces) {
    remove_leftovers(file.target.path);
    file.temporary = file.target.path;
    file.temporary += cat(kAside, getpid());
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
  std::set<fs::path> folders;
  for (const File& file : files_) {
    if (file.temporary.empty()) continue;
    folders.insert(folder_of(file.target.path));
    if (unlink(file.target.path.c_str()) != 0 && errno != ENOENT) fail_on_file("replace", file.shown, errno);
  }
  for (const fs::path& folder : folders) sync_path(folder);
  for (File& file : files_) {
    if (file.temporary.empty()) continue;
    if (rename(file.temporary.c_str(), file.target.path.c_str()) != 0) fail_on_file("rename onto", file.shown, errno);
    file.temporary.clear();
  }
  for (const fs::path& folder : folders) sync_path(folder);
  files_.clear();
}

}  // namespace fovea
