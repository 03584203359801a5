#include "fovea/base/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "fovea/base/error.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace fs = std::filesystem;

void fail_on_file(std::string_view doing, const fs::path& path, int error) {
  throw Error(cat("cannot ", doing, " '", path.string(), "': ", std::strerror(error),
                  error == ENOSPC ? "; free some space and run again" : ""));
}

int open_at_last(const fs::path& path, int flags) {
  constexpr mode_t kMode = 0666;  // of a new file
  int file = -1;
  do file = open(path.c_str(), flags | O_CLOEXEC, kMode);
  while (file < 0 && errno == EINTR);
  return file;
}

int sync_at_last(int fd) {
  int failed = 0;
  do failed = fsync(fd);
  while (failed != 0 && errno == EINTR);
  return failed;
}

int open_input(const fs::path& path) {
  for (;;) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file >= 0 || errno != EINTR) return file;
    throw_if_interrupted("reading");
  }
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

void write_all(int fd, std::string_view content, const fs::path& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_on_file("write", path, errno);
    content.remove_prefix(static_cast<size_t>(written));
  }
}

void sync_file(const Descriptor& file, const fs::path& path) {
  if (sync_at_last(file.get()) != 0) fail_on_file("write", path, errno);
}

}  // namespace fovea
