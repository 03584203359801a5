#pragma once
// Shared by the tests of readers: a folder of files, and pairs to expect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "fovea/base/file.h"
#include "fovea/base/test_folder.h"
#include "fovea/text/corpus_readers.h"

namespace fovea::text {

inline auto is_pair(const std::string& source, const std::string& target) {
  return testing::AllOf(testing::Field(&Pair::source, source), testing::Field(&Pair::target, target));
}

class ReadersTest : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(folder_ / name).parent_path());
    write_file(folder_ / name, content);
    return folder_ / name;
  }
  TestFolder folder_;
};

}  // namespace fovea::text
