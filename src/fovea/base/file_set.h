#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/descriptor.h"
#include "fovea/base/output_target.h"

namespace fovea {

// Writes files that belong together, as the two sides of a corpus do. Whatever ends the process, the old ones are
// there, or the new ones, or some of either kind are missing: never old ones beside new ones. Every failure throws.
class FileSet {
 public:
  FileSet() = default;
  ~FileSet();  // removes what commit() has not put in place
  FileSet(const FileSet&) = delete;
  FileSet& operator=(const FileSet&) = delete;

  // Begins a file, aside, and ends the one before. What a process that was killed left aside is removed.
  void begin(const std::filesystem::path& path);
  // More of the file. A signal that stops throws Interrupted.
  void append(std::string_view text);
  // Ends the last file, moves the old files aside and puts the new ones in their places; where one cannot be, all the
  // old ones are put back.
  void commit();

 private:
  struct File {
    OutputTarget target;
    std::filesystem::path shown;
    std::filesystem::path temporary = {};  // empty where the target itself is open
    std::filesystem::path old = {};        // the file there before, moved aside
    bool is_in_place = false;
  };
  void move_old_aside();
  void restore_old();
  void flush();
  void end();
  std::vector<File> files_;
  std::optional<Descriptor> open_;  // of files_.back()
  std::string buffer_;
};

}  // namespace fovea
