#include "fovea/base/file_set.h"

#include <cerrno>
#include <cstdio>
#include <set>
#include <utility>

#include "fovea/base/file.h"
#include "fovea/base/output_target.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace fs = std::filesystem;
namespace {

constexpr size_t kBuffer = 1 << 16;

}  // namespace

FileSet::FileSet(const std::vector<fs::path>& paths) { finish_killed_commits(paths); }

void FileSet::begin(const fs::path& path) {
  end();
  const OutputTarget target = output_target(path);
  shown_ = path;
  is_replaced_ = target.replaces;
  if (!is_replaced_) {
    open_.emplace(open_output(target, {}), "write", path);
    return;
  }
  const fs::path folder = folder_of(target.path);
  MarkedFolder& aside = asides_.try_emplace(folder, folder, path).first->second;
  files_.push_back({.target = target.path, .shown = path, .aside = &aside, .number = cat(files_.size() + 1)});
  open_.emplace(open_output(target, files_.back().written()), "write", path);
}

void FileSet::append(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBuffer) flush();
}

void FileSet::flush() {
  throw_if_interrupted("writing");
  write_all(open_->get(), buffer_, shown_);
  buffer_.clear();
}

void FileSet::end() {
  if (!open_) return;
  flush();
  if (is_replaced_) sync_file(*open_, shown_);
  open_.reset();  // the reader of a pipe waits for its end
}

void FileSet::commit() {
  end();
  std::vector<fs::path> folders;
  {
    const std::map<fs::path, MarkedFolder> asides = std::move(asides_);  // gone also if this throws
    for (const auto& [folder, aside] : asides) folders.push_back(folder);
    if (files_.size() == 1) put_in_place();
    if (files_.size() > 1) replace_together(files_);
  }
  files_.clear();
  remove_leftovers(folders);
}

// A single file is replaced by one rename.
void FileSet::put_in_place() {
  const Replacement& file = files_.front();
  if (rename(file.written().c_str(), file.target.c_str()) != 0) fail_on_file("rename onto", file.shown, errno);
  sync_path(folder_of(file.target));
}

void finish_killed_commits(const std::vector<fs::path>& paths) {
  std::set<fs::path> folders;
  for (const fs::path& path : paths) folders.insert(folder_of(output_target(path).path));
  finish_killed_replacements(std::vector<fs::path>(folders.begin(), folders.end()));
}

}  // namespace fovea
