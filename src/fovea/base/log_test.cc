#include "fovea/base/log.h"

#include <gtest/gtest.h>

#include <regex>

#include "fovea/base/file.h"
#include "fovea/base/test_folder.h"

namespace fovea::log_test {
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

// Names of files may come from a stranger, and terminals obey escapes in them.
TEST(Log, HasOneLineAndNoControlCharacters) {
  const std::string name = "a\n[2026-01-01 00:00:00] Training finished\x1b[2J \u009b1m \u202egpj\u2028.";
  const std::string cleaned = "a [2026-01-01 00:00:00] Training finished [2J  1m  gpj .";
  const TestFolder folder;
  const std::string file = folder / "log";
  log::configure({.format = log::Format::kText, .level = log::Level::kInfo, .file = file});
  log::info(name);
  log::warn(name);
  log::record(name, "{}");
  log::error(name);
  log::configure({});
  const std::vector<std::string> lines = read_lines(file);
  ASSERT_EQ(lines.size(), 4U);
  for (const std::string& line : lines) EXPECT_TRUE(line.ends_with(cleaned)) << line;
}

TEST(Log, KeepsTheLinesThatPointIntoASpec) {
  const TestFolder folder;
  const std::string file = folder / "log";
  log::configure({.format = log::Format::kText, .level = log::Level::kInfo, .file = file});
  log::error("attention spec, column 2: a\nb\n  x\ry\n   ^");
  log::error("two\n  lines\nmore");
  log::configure({});
  EXPECT_EQ(read_lines(file), (std::vector<std::string>{"Error: attention spec, column 2: a b", "  x y", "   ^",
                                                        "Error: two   lines more"}));
}

// Characters that JSON does not need to escape would still reach the terminal.
TEST(Log, EscapesControlCharactersInJson) {
  const TestFolder folder;
  const std::string file = folder / "log";
  log::configure({.format = log::Format::kJson, .level = log::Level::kInfo, .file = file});
  log::record("text", "{\"path\":\"\u00e4\u009b\x7f\u202e\\n\"}");
  log::info("a\u009bb");
  log::configure({});
  const std::vector<std::string> lines = read_lines(file);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_TRUE(lines[0].ends_with("\"path\":\"\u00e4\\u009b\\u007f\\u202e\\n\"}")) << lines[0];
  EXPECT_TRUE(lines[1].ends_with("\"message\":\"a b\"}")) << lines[1];
}

}  // namespace
}  // namespace fovea::log_test
