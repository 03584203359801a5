#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "fovea/base/aside.h"
#include "fovea/base/descriptor.h"
#include "fovea/data/value_file.h"

// Large files that say at their end what they hold: blocks of bytes, then a summary in JSON, the place where the
// summary begins (8 bytes, little-endian), its checksum, and the name of the format.
namespace fovea::data {

// Writes such a file aside, and puts it in place when it is whole.
class SummaryFileWriter {
 public:
  SummaryFileWriter(const std::filesystem::path& path, std::string_view format);

  void write(std::string_view bytes);
  uint64_t place() const { return written_; }  // of the next byte
  void commit(std::string_view summary);

 private:
  void flush();

  std::filesystem::path path_;
  std::optional<MarkedFolder> aside_;
  std::filesystem::path temporary_;  // in it
  Descriptor file_;
  std::string format_, buffer_;
  uint64_t written_ = 0;  // with the buffer
};

// A file that SummaryFileWriter wrote. The parts before the summary are read when they are used.
class SummaryFile {
 public:
  // Throws an Error unless the file ends as this format does.
  SummaryFile(const std::filesystem::path& path, std::string_view format);

  const std::string& summary() const { return summary_; }
  uint64_t summary_place() const { return summary_place_; }
  const std::filesystem::path& path() const { return path_; }
  // Reads bytes before the summary; damaged if there are not as many.
  void read(uint64_t place, void* to, size_t size) const;
  // Throws an Error that says that the file is damaged.
  [[noreturn]] void fail(std::string_view what) const;
  void require(bool is_right, std::string_view what) const;
  // From now on the file is in use, and messages say what to do.
  void use() { is_in_use_ = true; }

 private:
  std::filesystem::path path_;
  ValueFile file_;
  bool is_in_use_ = false;
  uint64_t summary_place_ = 0;
  std::string summary_;
};

inline constexpr std::string_view kNumbersDiffer = "its numbers do not fit together";

}  // namespace fovea::data
