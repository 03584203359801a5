#include "fovea/train/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "fovea/base/file.h"
#include "fovea/base/test_folder.h"

namespace fovea::train::run_record_test {
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

TEST(RunRecord, KnowsTheEndOfTheLatestProcess) {
  const TestFolder folder;
  EXPECT_FALSE(recorded_end(folder.path()));
  const std::string start = R"({"event":"start","options":{"seed":"2"},"defaults":{"task":"x"}})";
  const std::string end = R"({"event":"end","updates":4,"reason":"4 updates"})";
  write_file(folder / "log.jsonl", start + "\n" + end + "\n");
  const std::optional<RecordedEnd> found = recorded_end(folder.path());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->updates, 4);
  EXPECT_EQ(found->reason, "4 updates");
  EXPECT_EQ(found->options, (std::map<std::string, std::string>{{"seed", "2"}, {"task", "x"}}));
  for (const std::string& later :
       {start, std::string(R"({"event":"save","updates":5})"), std::string(R"({"event":"end"})"),
        std::string(R"({"event":"end","updates":"4","reason":"r"})")}) {
    write_file(folder / "log.jsonl", start + "\n" + end + "\n" + later + "\n");
    EXPECT_FALSE(recorded_end(folder.path())) << later;
  }
  write_file(folder / "log.jsonl", end + "\n");
  EXPECT_FALSE(recorded_end(folder.path())) << "the options are not known";
}

TEST(RunRecord, HasTheLatestValuesOfAnUpdate) {
  const TestFolder folder;
  EXPECT_TRUE(recorded_values(folder.path(), 4, "a").empty());
  write_file(folder / "log.jsonl", R"({"event":"start","valid_data":"a"}
{"event":"valid","updates":4,"metric":"bleu","value":1.5}
{"event":"valid","updates":8,"metric":"bleu","value":3.5}
{"event":"start","valid_data":"b"}
{"event":"valid","updates":4,"metric":"bleu","value":9}
{"event":"start"}
{"event":"valid","updates":4,"metric":"chrf","value":2}
{"event":"valid","updates":4,"metric":"accuracy","value":null}
{"event":"valid","updates":"4","metric":"f1","value":1}
cut off)");
  EXPECT_EQ(recorded_values(folder.path(), 4, "a"), (std::map<std::string, double>{{"bleu", 1.5}, {"chrf", 2}}));
  EXPECT_EQ(recorded_values(folder.path(), 4, "b"), (std::map<std::string, double>{{"bleu", 9}, {"chrf", 2}}));
}

}  // namespace
}  // namespace fovea::train::run_record_test
