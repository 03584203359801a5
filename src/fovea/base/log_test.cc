#include "fovea/base/log.h"

#include <gtest/gtest.h>

#include <regex>

#include "fovea/base/file.h"
#include "fovea/base/test_folder.h"

namespace fovea {
namespace {

TEST(Log, TellsTheTimeInEveryJsonObject) {
  const TestFolder folder;
  const std::string file = folder / "log";
  log::configure({.format = log::Format::kJson, .quiet = false, .file = file});
  log::info("a \"word\"");
  log::record("text", R"({"event":"train"})");
  log::configure({});
  const std::vector<std::string> lines = read_lines(file);
  ASSERT_EQ(lines.size(), 2U);
  const std::string time = R"(\{"time":"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\d[+-]\d\d:\d\d",)";
  EXPECT_TRUE(std::regex_match(lines[0], std::regex(time + R"("level":"info","message":"a \\"word\\""\})")))
      << lines[0];
  EXPECT_TRUE(std::regex_match(lines[1], std::regex(time + R"("event":"train"\})"))) << lines[1];
}

}  // namespace
}  // namespace fovea
