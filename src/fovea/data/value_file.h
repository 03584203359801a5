#pragma once
#include <cstddef>
#include <filesystem>
#include <string>

#include "fovea/base/descriptor.h"

namespace fovea::data {

// A file whose parts are read when they are used. A mapping would end the process with SIGBUS when the file is cut or
// the disk fails; here that is an Error.
class ValueFile {
 public:
  // Throws an Error that names `path` unless it is a regular file that is not empty.
  explicit ValueFile(const std::filesystem::path& path);

  size_t size() const { return size_; }  // in bytes, when it was opened
  // The first `most` bytes, or all that there are.
  std::string begin(size_t most) const;
  // Reads `size` bytes from `offset` on. Throws an Error if they are no longer there.
  void read(size_t offset, void* to, size_t size) const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  size_t size_ = 0;
};

}  // namespace fovea::data
