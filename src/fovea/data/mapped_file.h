#pragma once
#include <cstddef>
#include <filesystem>
#include <string_view>

#include "fovea/base/descriptor.h"

namespace fovea::data {

// The pages of a file, read when they are used. The file must not change while this lives.
class MappedFile {
 public:
  // Maps `size` bytes, at least one. Throws an Error that names `path`.
  MappedFile(const Descriptor& file, size_t size, const std::filesystem::path& path);
  // Maps all of a file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  const unsigned char* data() const { return static_cast<const unsigned char*>(memory_); }
  std::string_view bytes() const { return {static_cast<const char*>(memory_), size_}; }

 private:
  void* memory_ = nullptr;
  size_t size_ = 0;
};

}  // namespace fovea::data
