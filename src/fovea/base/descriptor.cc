#include "fovea/base/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace fs = std::filesystem;

void fail_on_file(std::string_view doing, const fs::path& path, int error) {
  throw Error(cat("cannot ", doing, " '", path.string(), "': ", std::strerror(error),
                  error == ENOSPC ? "; free some space and run again" : ""));
}

Descriptor::Descriptor(const fs::path& path, int flags, std::string_view doing)
    : Descriptor(open(path.c_str(), flags | O_CLOEXEC), doing, path) {}

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

void sync_and_close(Descriptor& file, const fs::path& path) {
  if (fsync(file.get()) != 0) fail_on_file("write", path, errno);
  if (::close(file.release()) != 0) fail_on_file("write", path, errno);
}

}  // namespace fovea
