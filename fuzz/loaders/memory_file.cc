#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "fovea/base/log.h"
#include "loaders/loaders.h"

namespace fovea::fuzz {

void silence_log() {
  std::FILE* const shown = stderr;
  stderr = std::fopen("/dev/null", "w");
  fovea::log::configure({.level = fovea::log::Level::kWarning, .file = {}});
  stderr = shown;
}

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

MemoryFile::MemoryFile() : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
  require(descriptor_ >= 0, "no file in memory");
  path_ = "/proc/self/fd/" + std::to_string(descriptor_);
}

MemoryFile::~MemoryFile() { ::close(descriptor_); }

const std::string& MemoryFile::put(std::string_view bytes) const {
  const bool done = ftruncate(descriptor_, 0) == 0 && lseek(descriptor_, 0, SEEK_SET) == 0 &&
                    write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  require(done, "the file in memory took less than it was given");
  return path_;
}

}  // namespace fovea::fuzz
