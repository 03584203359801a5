#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <vector>

#include "fovea/base/aside.h"

namespace fovea {

// The number of a process that has ended.
inline pid_t ended_process() {
  const pid_t process = fork();
  if (process == 0) _exit(0);
  waitpid(process, nullptr, 0);
  return process;
}

// A marked folder in `folder` whose process was killed after it had done `action` with it.
inline std::filesystem::path left_by_killed(const std::filesystem::path& folder,
                                            const std::function<void(const MarkedFolder&)>& action) {
  const pid_t process = fork();
  if (process == 0) {
    const MarkedFolder aside(folder, folder);
    action(aside);
    (void)raise(SIGKILL);
  }
  waitpid(process, nullptr, 0);
  std::filesystem::path left;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (is_marked(entry.path())) left = entry.path();
  return left;
}

// A process that is killed between two system calls can leave a folder that has no mark yet, or no longer. No call
// removes it, because nothing tells that it is not the user's. It never holds content.
inline void remove_unmarked(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> unmarked;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(".fovea-") && !is_marked(entry.path())) unmarked.push_back(entry.path());
  }
  for (const std::filesystem::path& path : unmarked) {
    std::filesystem::remove(path / "mark-to-be");
    EXPECT_TRUE(std::filesystem::is_empty(path)) << path;
    std::filesystem::remove(path);
  }
}

}  // namespace fovea
