#include "fovea/base/commit_mark.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fovea/base/aside.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kMark = ".commit";
constexpr std::string_view kBegin = "fovea replaces these files together:\n";
constexpr char kNameEnd = '\0';  // names may have any other character; an empty name ends the list

// The folder without links, so that two names of one folder are equal.
fs::path place_of_folder(const fs::path& folder) {
  std::error_code failed;
  fs::path place = fs::weakly_canonical(folder, failed);
  return failed ? folder : place;
}

// Relative to the mark's own folder, because all of it may be moved before the next call.
std::string list_of(const std::vector<fs::path>& targets) {
  const fs::path home = place_of_folder(folder_of(targets.front()));
  std::string list(kBegin);
  for (const fs::path& target : targets) {
    const fs::path place = place_of_folder(folder_of(target)) / target.filename();
    list += place.lexically_relative(home).string() + kNameEnd;
  }
  return list + kNameEnd;
}

// The listed paths; nothing if the file is not a mark. An empty file is the mark of a process that was killed before it
// replaced anything.
std::optional<std::vector<fs::path>> listed_in(const fs::path& mark) {
  constexpr uintmax_t kMostBytes = 1 << 20;
  std::vector<fs::path> targets;
  std::error_code failed;
  const uintmax_t size = fs::file_size(mark, failed);
  if (failed || size > kMostBytes) return std::nullopt;
  if (size == 0) return targets;
  const fs::path home = place_of_folder(folder_of(mark));
  const std::string list = read_file(mark);
  if (!list.starts_with(kBegin)) return std::nullopt;
  for (size_t at = kBegin.size(), end = 0; (end = list.find(kNameEnd, at)) != std::string::npos; at = end + 1) {
    if (end == at) return targets;
    targets.push_back((home / list.substr(at, end - at)).lexically_normal());
  }
  return std::vector<fs::path>();
}

// The process of a path such as "FILE.commit123".
std::optional<pid_t> process_of_mark(const fs::path& path) {
  const std::string name = path.filename();
  const size_t at = name.rfind(kMark);
  return at == std::string::npos ? std::nullopt
                                 : process_of_aside(std::string_view(name).substr(at), std::string(kMark));
}

// Puts what the process wrote in place. If someone removed that, the old file comes back.
void finish(const fs::path& target, pid_t process) {
  const std::string written = cat(target.string(), kNewAside, process), old = cat(target.string(), kOldAside, process);
  if (rename(written.c_str(), target.c_str()) == 0) return;
  std::error_code none_there;
  if (errno == ENOENT && fs::exists(target, none_there)) return;
  if (errno != ENOENT || (rename(old.c_str(), target.c_str()) != 0 && errno != ENOENT))
    fail_on_file("restore", target, errno);
}

void finish(const fs::path& mark, pid_t process, std::span<const fs::path> folders) {
  const std::optional<std::vector<fs::path>> targets = listed_in(mark);
  if (!targets) return;
  const bool is_elsewhere = std::ranges::any_of(
      *targets, [&](const fs::path& target) { return std::ranges::find(folders, folder_of(target)) == folders.end(); });
  if (is_elsewhere) return;
  for (const fs::path& target : *targets) finish(target, process);
  for (const fs::path& folder : folders) sync_path(folder);
  for (const fs::path& target : *targets) unlink(cat(target.string(), kOldAside, process).c_str());
  unlink(mark.c_str());
}

}  // namespace

CommitMark::CommitMark(const std::vector<fs::path>& targets)
    : path_(aside_of(targets.front(), kMark)), file_(create_aside(path_), "write", path_) {
  try {
    write_all(file_.get(), list_of(targets), path_);
    sync_file(file_, path_);
    sync_path(folder_of(path_));
  } catch (...) {
    unlink(path_.c_str());
    throw;
  }
}

CommitMark::~CommitMark() { unlink(path_.c_str()); }

void finish_marked_commits(std::span<const fs::path> folders) {
  std::vector<fs::path> places;
  for (const fs::path& folder : folders) places.push_back(place_of_folder(folder));
  std::vector<std::pair<fs::path, pid_t>> marks;
  for (const fs::path& folder : places) {
    std::error_code none_there;
    for (fs::directory_iterator entry(folder, none_there), end; !none_there && entry != end;
         entry.increment(none_there)) {
      const std::optional<pid_t> process = process_of_mark(entry->path());
      const bool is_file = entry->symlink_status(none_there).type() == fs::file_type::regular;
      if (process && is_file && is_abandoned(entry->path(), *process)) marks.emplace_back(entry->path(), *process);
    }
  }
  for (const auto& [mark, process] : marks) finish(mark, process, places);
}

}  // namespace fovea
