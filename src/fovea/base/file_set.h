#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/descriptor.h"
#include "fovea/base/output_target.h"

namespace fovea {

// Writes files that belong together, as the two sides of a corpus do. If the process is killed at any moment, all old
// files are in place, or all new ones, or the next call for them puts all new ones in place: old ones never stand
// beside new ones. Every failure throws.
class FileSet {
 public:
  // The files at `paths`. First completes a killed process's commits there: see finish_killed_commits().
  explicit FileSet(const std::vector<std::filesystem::path>& paths);
  ~FileSet();  // removes what commit() has not put in place
  FileSet(const FileSet&) = delete;
  FileSet& operator=(const FileSet&) = delete;

  // Begins a file of the set, aside, and ends the one before.
  void begin(const std::filesystem::path& path);
  // Appends to the file. A signal that stops throws Interrupted.
  void append(std::string_view text);
  // Ends the last file, moves the old files aside and puts the new ones in their places; if one cannot be put in place,
  // all old ones are put back. In the end, removes what killed processes left beside the files.
  void commit();

 private:
  struct File {
    OutputTarget target;
    std::filesystem::path shown;
    std::unique_ptr<Descriptor> open = nullptr;  // locked until the end: other processes see that it is in use
    std::filesystem::path temporary = {};        // empty if the target itself is open
    std::filesystem::path old = {};              // the file there before, moved aside
    bool is_in_place = false;
  };
  void put_in_place();
  void replace_all();
  void move_old_aside();
  void restore_old();
  void remove_temporary();
  void flush();
  void end();
  std::vector<File> files_;
  std::string buffer_;
};

// Ends the commit() of sets in the folders of `paths` during which a process was killed: puts the rest of its new files
// in their places. A command that writes a set calls this before its work: then the files are whole even if it fails.
void finish_killed_commits(const std::vector<std::filesystem::path>& paths);

}  // namespace fovea
