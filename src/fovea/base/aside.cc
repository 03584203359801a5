#include "fovea/base/aside.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <ctime>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <sstream>
#include <string>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace fs = std::filesystem;
namespace {

constexpr int kNoLinks = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;  // named pipes do not wait

double seconds_of(clockid_t clock) {
  timespec now = {};
  (void)clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// When a process began, in seconds since 1970; nothing if the system does not tell.
std::optional<double> start_of(pid_t process) {
  std::ifstream file(cat("/proc/", process, "/stat"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // The second field is the program's name in parentheses, which may hold blanks and parentheses.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  constexpr int kBefore = 19;  // fields between the name and the start
  std::string field;
  for (int i = 0; i < kBefore; ++i) fields >> field;
  double ticks = 0;
  if (!(fields >> ticks)) return std::nullopt;
  return seconds_of(CLOCK_REALTIME) - seconds_of(CLOCK_BOOTTIME) + ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Whether the process that had this number when `path` was last changed has ended. The number may have been given to
// another process since. A number of this process tells nothing: in containers, each call often has the same.
bool has_ended(pid_t process, const fs::path& path) {
  if (process == getpid()) return true;
  if (kill(process, 0) != 0) return errno == ESRCH;
  struct stat status = {};
  const std::optional<double> start = start_of(process);
  if (!start || lstat(path.c_str(), &status) != 0) return false;
  constexpr double kClockError = 2;
  return *start > static_cast<double>(status.st_ctim.tv_sec) + kClockError;
}

// Whether another open descriptor holds the lock. A link has none.
bool is_locked(const fs::path& path) {
  int file = open(path.c_str(), O_RDWR | kNoLinks);  // NFS asks for it
  if (file < 0) file = open(path.c_str(), O_RDONLY | kNoLinks);
  if (file < 0) return false;
  const bool locked = flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(file);
  return locked;
}

bool is_plain_folder(const fs::path& path) {
  std::error_code none_there;
  return fs::symlink_status(path, none_there).type() == fs::file_type::directory;
}

// Whether the name ends as the name of new or old content does, whatever stands before.
bool is_named_as_aside(std::string_view name) {
  const size_t end = name.find_last_not_of("0123456789");
  if (end == std::string_view::npos || end + 1 == name.size()) return false;
  const std::string_view stem = name.substr(0, end + 1);
  return stem.ends_with(kNewAside) || stem.ends_with(kOldAside);
}

// Folders in which no name is like that of a leftover. Leftovers that come later are for later calls.
std::set<fs::path>& tidy_folders() {
  static std::set<fs::path> folders;
  return folders;
}
std::mutex& tidy_mutex() {
  static std::mutex mutex;
  return mutex;
}

void remove_each(const std::vector<fs::path>& paths) {
  std::error_code ignored;
  for (const fs::path& path : paths) fs::remove_all(path, ignored);
}

}  // namespace

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

fs::path aside_of(const fs::path& path, std::string_view kind) {
  fs::path aside = path;
  aside += cat(kind, getpid());
  return aside;
}

std::optional<pid_t> process_of_aside(std::string_view name, std::string_view stem) {
  constexpr pid_t kMost = 1 << 22;  // Linux has no larger ones: a date is not a process
  if (!name.starts_with(stem)) return std::nullopt;
  const std::string_view digits = name.substr(stem.size());
  pid_t process = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), process);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  return is_number && process > 0 && process <= kMost ? std::optional(process) : std::nullopt;
}

int create_aside(const fs::path& path) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | kNoLinks;
  int file = open_at_last(path, kFlags);
  if (file < 0 && errno == EEXIST) {
    if (is_locked(path)) {
      errno = EBUSY;
      return -1;
    }
    (void)unlink(path.c_str());
    file = open_at_last(path, kFlags);
  }
  if (file >= 0) (void)flock(file, LOCK_EX);  // some file systems have no locks
  return file;
}

bool is_abandoned(const fs::path& path, pid_t process) { return has_ended(process, path) && !is_locked(path); }

namespace {

// The process of "OUT.tmp123.old", given "OUT".
std::optional<pid_t> process_of_replaced(std::string_view name, const std::string& out) {
  if (!name.ends_with(kReplaced)) return std::nullopt;
  return process_of_aside(name.substr(0, name.size() - kReplaced.size()), cat(out, kNewAside));
}

// The process that gave this name to content of `out`, unless a user may have done so.
std::optional<pid_t> process_of_leftover(const fs::path& path, const std::string& out) {
  const std::string name = path.filename();
  if (const auto process = process_of_aside(name, cat(out, kNewAside))) return process;
  return is_plain_folder(path) ? process_of_replaced(name, out) : process_of_aside(name, cat(out, kOldAside));
}

}  // namespace

std::vector<fs::path> leftovers_of(const fs::path& path) {
  std::vector<fs::path> found;
  const std::string name = path.filename();
  std::error_code ignored;
  for (fs::directory_iterator entry(folder_of(path), ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const std::optional<pid_t> process = process_of_leftover(entry->path(), name);
    if (process && is_abandoned(entry->path(), *process)) found.push_back(entry->path());
  }
  return found;
}

void remove_leftovers(const fs::path& path) {
  const fs::path folder = folder_of(path);
  {
    const std::scoped_lock lock(tidy_mutex());
    if (tidy_folders().contains(folder)) return;
  }
  remove_each(leftovers_of(path));
  std::error_code failed;
  fs::directory_iterator entry(folder, failed);
  for (const fs::directory_iterator end; !failed && entry != end; entry.increment(failed))
    if (is_named_as_aside(entry->path().filename().string())) return;
  const std::scoped_lock lock(tidy_mutex());
  if (!failed) tidy_folders().insert(folder);
}

AsideFolder::AsideFolder(const fs::path& place) : place_(place), path_(aside_of(place, kNewAside)) {
  restore_folder(place_);
  if (is_locked(path_)) fail_on_file("write", path_, EBUSY);
  std::error_code error;
  fs::remove_all(path_, error);
  fs::create_directories(path_, error);
  if (error) throw Error(cat("cannot make the folder '", path_.string(), "': ", error.message()));
  lock_.emplace(open(path_.c_str(), O_RDONLY | O_DIRECTORY | kNoLinks), "open", path_);
  (void)flock(lock_->get(), LOCK_EX);  // some file systems have no locks
}

AsideFolder::~AsideFolder() {
  std::error_code ignored;
  if (!is_in_place_) fs::remove_all(path_, ignored);
}

void AsideFolder::commit() {
  replace_folder(path_, place_);
  is_in_place_ = true;
  remove_each(leftovers_of(place_));
}

namespace {

// Whether a process that was killed between the two renames of a replacement left `old`, which was `place`.
bool is_replaced_content(const fs::path& old, const fs::path& place) {
  const std::string name = old.filename();
  const auto process = process_of_replaced(name, place.filename());
  return process && is_abandoned(old, *process);
}

}  // namespace

void restore_folder(const fs::path& place) {
  std::error_code failed;
  if (fs::exists(fs::symlink_status(place, failed))) return;
  for (fs::directory_iterator entry(folder_of(place), failed), end; !failed && entry != end; entry.increment(failed)) {
    if (!is_plain_folder(entry->path()) || !is_replaced_content(entry->path(), place)) continue;
    if (rename(entry->path().c_str(), place.c_str()) != 0) fail_on_file("restore", place, errno);
    sync_path(folder_of(place));
    return;
  }
}

void replace_folder(const fs::path& finished, const fs::path& path) {
  std::error_code failed;
  const bool replaces = fs::exists(fs::symlink_status(path, failed));
  if (!replaces) {
    if (rename(finished.c_str(), path.c_str()) != 0) fail_on_file("rename onto", path, errno);
  } else if (renameat2(AT_FDCWD, finished.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0) {
    // Some file systems cannot exchange names. restore_folder() knows this order.
    fs::path old = finished;
    old += kReplaced;
    if (rename(path.c_str(), old.c_str()) != 0) fail_on_file("replace", path, errno);
    if (rename(finished.c_str(), path.c_str()) != 0) {
      const int error = errno;
      (void)rename(old.c_str(), path.c_str());
      fail_on_file("rename onto", path, error);
    }
    sync_path(folder_of(path));
    fs::remove_all(old, failed);
    return;
  }
  sync_path(folder_of(path));
  if (replaces) fs::remove_all(finished, failed);
}

}  // namespace fovea
