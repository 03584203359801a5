#pragma once
#include <filesystem>
#include <span>
#include <vector>

#include "fovea/base/descriptor.h"

namespace fovea {

// "FILE.commit123", which lists files that process 123 replaces together. It appears when all new ones are written
// aside, and goes when all of them are in place. If the process is killed between, the list tells what is left to do.
class CommitMark {
 public:
  // Writes the mark beside the first of `targets`, synced.
  explicit CommitMark(const std::vector<std::filesystem::path>& targets);
  ~CommitMark();  // removes it
  CommitMark(const CommitMark&) = delete;
  CommitMark& operator=(const CommitMark&) = delete;

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

// Does what the marks of ended processes in these folders list, then removes them. A mark that names a file of another
// folder stays: the folder may come from someone else.
void finish_marked_commits(std::span<const std::filesystem::path> folders);

}  // namespace fovea
