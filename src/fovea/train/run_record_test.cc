#include "fovea/train/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "fovea/base/file.h"
#include "fovea/base/test_folder.h"

namespace fovea::train {
namespace {

TEST(RunRecord, AppendsLinesWithTheirTime) {
  const TestFolder folder;
  RunRecord(folder.path()).write(R"({"event":"start"})");
  RunRecord(folder.path()).write(R"({"event":"save"})");
  const std::vector<std::string> lines = read_lines(folder / "log.jsonl");
  ASSERT_EQ(lines.size(), 2U);
  const std::string time = R"(\{"time":"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ",)";
  EXPECT_TRUE(std::regex_match(lines[0], std::regex(time + R"("event":"start"\})"))) << lines[0];
  EXPECT_TRUE(std::regex_match(lines[1], std::regex(time + R"("event":"save"\})"))) << lines[1];
}

TEST(RunRecord, CutsOffAnUnfinishedLine) {
  const TestFolder folder;
  for (const auto& [before, kept] : {std::pair("a\nb\nc", "a\nb\n"), {"a\nb\n", "a\nb\n"}, {"abc", ""}, {"", ""}}) {
    write_file(folder / "log.jsonl", before);
    RunRecord(folder.path()).write("{x}");
    EXPECT_THAT(read_file(folder / "log.jsonl"), testing::MatchesRegex(std::string(kept) + "\\{\"time\":.*,x\\}\n"));
  }
}

}  // namespace
}  // namespace fovea::train
