#include "fovea/base/aside.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

#include "fovea/base/strings.h"

namespace fovea {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = ".fovea-", kHexDigits = "0123456789abcdef";
constexpr size_t kDigits = 16;
constexpr const char* kMark = "mark";
constexpr const char* kMarkToBe = "mark-to-be";
constexpr std::string_view kFirstLine = "Fovea made this folder for output that is not whole yet. Its process:\n";
constexpr int kNoLinks = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;  // named pipes do not wait

bool is_name_of_marked(std::string_view name) {
  return name.size() == kPrefix.size() + kDigits && name.starts_with(kPrefix) &&
         name.find_first_not_of(kHexDigits, kPrefix.size()) == std::string_view::npos;
}

std::string random_name() {
  std::array<unsigned char, kDigits> bytes = {};
  if (getrandom(bytes.data(), bytes.size(), 0) != std::ssize(bytes)) {
    std::ifstream source("/dev/urandom", std::ios::binary);
    source.read(reinterpret_cast<char*>(bytes.data()), std::ssize(bytes));
  }
  std::string name(kPrefix);
  for (const unsigned char byte : bytes) name += kHexDigits[byte % kHexDigits.size()];
  return name;
}

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

// Whether the process that had this number when the file `mark` was last changed has ended. The number may have been
// given to another process since. A number of this process tells nothing: in containers, each call often has the same.
bool has_ended(pid_t process, int mark) {
  if (process == getpid()) return true;
  if (kill(process, 0) != 0) return errno == ESRCH;
  struct stat status = {};
  const std::optional<double> start = start_of(process);
  if (!start || fstat(mark, &status) != 0) return false;
  constexpr double kClockError = 2;
  return *start > static_cast<double>(status.st_ctim.tv_sec) + kClockError;
}

// The process that an open file names, if the file is a mark.
std::optional<pid_t> process_of_mark(int mark) {
  struct stat status = {};
  if (fstat(mark, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  std::array<char, 256> bytes = {};
  const ssize_t size = pread(mark, bytes.data(), bytes.size(), 0);
  std::string_view text(bytes.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
  if (!text.starts_with(kFirstLine)) return std::nullopt;
  text.remove_prefix(kFirstLine.size());
  pid_t process = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), process);
  const bool is_number = error == std::errc() && std::string_view(end, text.data() + text.size()) == "\n";
  return is_number && process > 0 ? std::optional(process) : std::nullopt;
}

bool is_plain_folder(const fs::path& path) {
  std::error_code none_there;
  return fs::symlink_status(path, none_there).type() == fs::file_type::directory;
}

// The open mark of a folder, or -1. A link is not followed.
int open_mark(const fs::path& folder) {
  if (!is_plain_folder(folder)) return -1;
  const fs::path mark = folder / kMark;
  const int file = open(mark.c_str(), O_RDWR | kNoLinks);  // NFS locks no other
  return file >= 0 ? file : open(mark.c_str(), O_RDONLY | kNoLinks);
}

// The mark goes last: if the process is killed meanwhile, the rest is still marked.
void remove_marked(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> entries;
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored))
    if (entry->path().filename() != kMark) entries.push_back(entry->path());
  for (const fs::path& entry : entries) fs::remove_all(entry, ignored);
  (void)unlink((folder / kMark).c_str());
  (void)rmdir(folder.c_str());
}

// A new folder of a name that nothing had. -1 and errno on failure.
int make_folder(const fs::path& folder, fs::path& made) {
  constexpr mode_t kMode = 0777;
  do {
    made = folder / random_name();
  } while (mkdir(made.c_str(), kMode) != 0 && errno == EEXIST);
  return is_plain_folder(made) ? 0 : -1;
}

}  // namespace

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

int rename_to_new(const fs::path& from, const fs::path& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
  // Some file systems cannot do both in one step.
  struct stat status = {};
  if (lstat(to.c_str(), &status) == 0) {
    errno = EEXIST;
    return -1;
  }
  return rename(from.c_str(), to.c_str());
}

MarkedFolder::MarkedFolder(const fs::path& folder, const fs::path& shown) {
  if (make_folder(folder, path_) != 0) fail_on_file("write", shown, errno);
  const fs::path to_be = path_ / kMarkToBe;
  try {
    mark_.emplace(open_at_last(to_be, O_RDWR | O_CREAT | O_EXCL | kNoLinks), "write", shown);
    (void)flock(mark_->get(), LOCK_EX);  // some file systems have no locks
    write_all(mark_->get(), cat(kFirstLine, getpid(), "\n"), shown);
    // The mark appears whole and locked.
    if (rename(to_be.c_str(), (path_ / kMark).c_str()) != 0) fail_on_file("write", shown, errno);
  } catch (...) {
    (void)unlink(to_be.c_str());
    (void)rmdir(path_.c_str());
    throw;
  }
}

MarkedFolder::~MarkedFolder() {
  if (!is_left_) remove_marked(path_);
}

LeftFolder::LeftFolder(fs::path path, int mark) : path_(std::move(path)), mark_(mark) {}
LeftFolder::LeftFolder(LeftFolder&& other) noexcept
    : path_(std::move(other.path_)), mark_(std::exchange(other.mark_, -1)) {}

LeftFolder::~LeftFolder() {
  if (mark_ >= 0) (void)close(mark_);
}

void LeftFolder::remove() const { remove_marked(path_); }

bool is_marked(const fs::path& folder) {
  const int mark = open_mark(folder);
  const bool is_mark = mark >= 0 && process_of_mark(mark).has_value();
  if (mark >= 0) (void)close(mark);
  return is_mark && is_name_of_marked(folder.filename().string());
}

LeftFolders left_folders_in(const fs::path& folder) {
  LeftFolders found;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    if (!is_name_of_marked(entry->path().filename().string())) continue;
    const int mark = open_mark(entry->path());
    const std::optional<pid_t> process = mark < 0 ? std::nullopt : process_of_mark(mark);
    const bool is_locked = mark >= 0 && flock(mark, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (process && !is_locked && has_ended(*process, mark)) {
      found.left.emplace_back(entry->path(), mark);
      continue;
    }
    found.may_be_more = true;
    if (mark >= 0) (void)close(mark);
  }
  found.may_be_more = found.may_be_more || failed;
  return found;
}

}  // namespace fovea
