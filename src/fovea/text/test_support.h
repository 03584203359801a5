#pragma once
#include <unistd.h>

#include <filesystem>
#include <string>

#include "fovea/base/error.h"

namespace fovea::text {

// A folder of a test's own, gone when the test ends.
class TestFolder {
 public:
  TestFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "fovea-test-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// What an action says that throws an Error.
template <class Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace fovea::text
