#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/aside.h"
#include "fovea/base/descriptor.h"
#include "fovea/base/replace.h"

namespace fovea {

// Writes files that belong together, as the two sides of a corpus do. If the process is killed at any moment, all old
// files are in place, or all new ones, or the next call for them puts one or the other in place: old ones never stand
// beside new ones. Every failure throws.
class FileSet {
 public:
  // The files at `paths`. First completes a killed process's commits there: see finish_killed_commits().
  explicit FileSet(const std::vector<std::filesystem::path>& paths);

  // Begins a file of the set, aside, and ends the one before.
  void begin(const std::filesystem::path& path);
  // Appends to the file. A signal that stops throws Interrupted.
  void append(std::string_view text);
  // Ends the last file, moves the old files aside and puts the new ones in their places; if one cannot be put in place,
  // all old ones are put back. In the end, removes what killed processes left beside the files.
  void commit();

 private:
  void put_in_place();
  void flush();
  void end();

  std::map<std::filesystem::path, MarkedFolder> asides_;  // by the folder in which they lie
  std::vector<Replacement> files_;                        // without what is no regular file
  std::optional<Descriptor> open_;                        // the last one that was begun
  std::filesystem::path shown_;
  bool is_replaced_ = false;
  std::string buffer_;
};

// Ends the commit() of sets in the folders of `paths` during which a process was killed. A command that writes a set
// calls this before its work: then the files are whole even if it fails.
void finish_killed_commits(const std::vector<std::filesystem::path>& paths);

}  // namespace fovea
