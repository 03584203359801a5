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
  log::configure({.format = log::Format::kJson, .level = log::Level::kInfo, .file = file});
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

TEST(Log, LeavesOutLowerLevels) {
  const TestFolder folder;
  const std::vector<std::string> all = {"debug", "info", "Warning: warning", "Error: error"};
  for (size_t level = 0; level < all.size(); ++level) {
    const std::string file = folder / std::to_string(level);
    log::configure({.format = log::Format::kText, .level = static_cast<log::Level>(level), .file = file});
    log::debug("debug");
    log::info("info");
    log::warn("warning");
    log::error("error");
    log::configure({});
    const std::vector<std::string> lines = read_lines(file);
    ASSERT_EQ(lines.size(), all.size() - level);
    for (size_t i = 0; i < lines.size(); ++i) EXPECT_TRUE(lines[i].ends_with(all[level + i])) << lines[i];
  }
}

}  // namespace
}  // namespace fovea
