#pragma once
#include <filesystem>
#include <optional>

#include "fovea/base/aside.h"

namespace fovea {

// A folder that is written aside and goes with this object unless it was put in place.
class AsideFolder {
 public:
  // Makes the folder. First brings back the content that a killed call moved out of `place` and did not replace.
  explicit AsideFolder(const std::filesystem::path& place);

  const std::filesystem::path& path() const { return path_; }
  // Puts the folder in place of what is there, in one step if the file system can exchange two names, and removes
  // leftovers. Call this once.
  void commit();

 private:
  std::filesystem::path place_, path_;
  std::optional<MarkedFolder> aside_;
};

}  // namespace fovea
