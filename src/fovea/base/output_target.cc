#include "fovea/base/output_target.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>

#include "fovea/base/aside.h"
#include "fovea/base/descriptor.h"
#include "fovea/base/error.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace fs = std::filesystem;
namespace {

// The number of a name in the folder of this process's open descriptors, or -1.
int descriptor_of(const fs::path& path) {
  std::error_code none_there;
  if (!fs::equivalent(folder_of(path), "/proc/self/fd", none_there)) return -1;
  const std::string name = path.filename();
  int number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() && fcntl(number, F_GETFD) >= 0 ? number : -1;
}

}  // namespace

OutputTarget output_target(const fs::path& path) {
  constexpr int kMostLinks = 40;
  OutputTarget target{.path = path};
  std::error_code none_there;
  for (int links = 0; links < kMostLinks; ++links) {
    target.descriptor = descriptor_of(target.path);
    if (target.descriptor >= 0) {
      target.replaces = false;
      return target;
    }
    if (!fs::is_symlink(fs::symlink_status(target.path, none_there))) break;
    const fs::path next = fs::read_symlink(target.path, none_there);
    if (next.empty()) break;
    target.path = next.is_absolute() ? next : target.path.parent_path() / next;
  }
  struct stat status = {};
  if (stat(target.path.c_str(), &status) != 0) return target;
  if (S_ISDIR(status.st_mode)) throw Error(cat("cannot write '", path.string(), "': it is a folder"));
  target.replaces = S_ISREG(status.st_mode);
  target.mode = status.st_mode & 07777;
  return target;
}

bool is_same_file_to_write(const fs::path& a, const fs::path& b) {
  const OutputTarget one = output_target(a), other = output_target(b);
  std::error_code unknown;
  const fs::path place = fs::weakly_canonical(one.path, unknown),
                 other_place = fs::weakly_canonical(other.path, unknown);
  return one.replaces && other.replaces && !place.empty() && place == other_place;
}

int open_output(const OutputTarget& target, const fs::path& temporary) {
  if (target.descriptor >= 0) return fcntl(target.descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (target.replaces) {
    // The rename would not ask whether the file there is protected.
    if (target.mode && access(target.path.c_str(), W_OK) != 0) return -1;
    // Nor would it be tried before the work is done. A name may be too long, for example.
    if (!target.mode && access(target.path.c_str(), F_OK) != 0 && errno != ENOENT) return -1;
    const int file = open_at_last(temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
    if (file >= 0 && target.mode) (void)fchmod(file, *target.mode);
    return file;
  }
  for (;;) {
    const int file = open(target.path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file >= 0 || errno != EINTR) return file;
    throw_if_interrupted("writing");
  }
}

}  // namespace fovea
