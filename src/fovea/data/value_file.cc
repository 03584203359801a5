#include "fovea/data/value_file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "fovea/base/error.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"

namespace fovea::data {
namespace {

// Each file of a set stays open, and the usual limit of open files is far below what the system allows.
int open_of_many(const std::filesystem::path& path) {
  const int file = open_input(path);
  if (file >= 0 || errno != EMFILE) return file;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
  }
  return open_input(path);
}

size_t size_of(const Descriptor& file, const std::filesystem::path& path) {
  struct stat status = {};
  if (fstat(file.get(), &status) != 0) fail_on_file("read", path, errno);
  if (!S_ISREG(status.st_mode)) throw Error(cat("'", path.string(), "' is not a regular file"));
  if (status.st_size == 0) throw Error(cat("'", path.string(), "': the file is empty"));
  return static_cast<size_t>(status.st_size);
}

}  // namespace

ValueFile::ValueFile(const std::filesystem::path& path)
    : path_(path), file_(open_of_many(path), "read", path), size_(size_of(file_, path)) {}

std::string ValueFile::begin(size_t most) const {
  std::string bytes(std::min(most, size_), '\0');
  read(0, bytes.data(), bytes.size());
  return bytes;
}

void ValueFile::read(size_t offset, void* to, size_t size) const {
  auto* out = static_cast<char*>(to);
  for (size_t done = 0; done < size;) {
    const ssize_t got = pread(file_.get(), out + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) {
      throw_if_interrupted("reading");
      continue;
    }
    if (got < 0) fail_on_file("read", path_, errno);
    if (got == 0)
      throw Error(cat("'", path_.string(), "' was cut while it was in use: it had ",
                      thousands(static_cast<int64_t>(size_)), " bytes and ends before byte ",
                      thousands(static_cast<int64_t>(offset + size)), " now; restore the file and run again"));
    done += static_cast<size_t>(got);
  }
}

}  // namespace fovea::data
