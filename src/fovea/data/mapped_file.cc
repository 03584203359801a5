#include "fovea/data/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::data {
namespace {

size_t size_of(const Descriptor& file, const std::filesystem::path& path) {
  struct stat status = {};
  if (fstat(file.get(), &status) != 0) fail_on_file("read", path, errno);
  if (!S_ISREG(status.st_mode)) throw Error(cat("'", path.string(), "' is not a regular file"));
  if (status.st_size == 0) throw Error(cat("'", path.string(), "': the file is empty"));
  return static_cast<size_t>(status.st_size);
}

void* map_pages(const Descriptor& file, size_t size, const std::filesystem::path& path) {
  void* const memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (memory == MAP_FAILED) fail_on_file("map", path, errno);
  return memory;
}

}  // namespace

MappedFile::MappedFile(const Descriptor& file, size_t size, const std::filesystem::path& path)
    : memory_(map_pages(file, size, path)), size_(size) {}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file(open_input(path), "read", path);
  size_ = size_of(file, path);
  memory_ = map_pages(file, size_, path);
}

MappedFile::~MappedFile() { munmap(memory_, size_); }

}  // namespace fovea::data
