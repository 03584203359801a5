#include "fovea/analysis/run_curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

namespace fovea::analysis::run_curves_test {
namespace {

std::string start(int updates) { return cat(R"({"event":"start","updates":)", updates, R"(,"elapsed":0.0})", "\n"); }
std::string train(int updates, double cost, double elapsed) {
  return cat(R"({"event":"train","updates":)", updates, R"(,"cost":)", cost, R"(,"elapsed":)", elapsed, "}\n");
}
std::string valid(const std::string& metric, int updates, const std::string& value, double elapsed, bool is_best) {
  return cat(R"({"event":"valid","updates":)", updates, R"(,"metric":")", metric, R"(","value":)", value,
             R"(,"new_best":)", is_best ? "true" : "false", R"(,"elapsed":)", elapsed, "}\n");
}
std::string save(int updates, double elapsed) {
  return cat(R"({"event":"save","updates":)", updates, R"(,"elapsed":)", elapsed, "}\n");
}

// "updates:seconds:value" of each point.
std::string text_of(const RunCurve& curve) {
  std::string text = curve.name;
  for (const CurvePoint& point : curve.points) text += cat(" ", point.updates, ":", point.seconds, ":", point.value);
  if (curve.best) text += cat(" best ", *curve.best);
  return text;
}
std::vector<std::string> texts_of(const std::string& record) {
  std::vector<std::string> texts;
  for (const RunCurve& curve : parse_run_curves(record, "log.jsonl")) texts.push_back(text_of(curve));
  return texts;
}

using testing::ElementsAre;
using testing::HasSubstr;

TEST(RunCurves, HasTheLossAndTheMeasuresOfARun) {
  EXPECT_THAT(texts_of(start(0) + valid("bleu", 5, "1.5", 1, true) + train(10, 3.5, 2) + valid("ce", 10, "2", 2, true) +
                       valid("bleu", 10, "1.25", 2, false) + train(20, 3, 4)),
              ElementsAre("training loss 10:2:3.5 20:4:3", "bleu 5:1:1.5 10:2:1.25 best 5", "ce 10:2:2 best 10"));
}

TEST(RunCurves, LeavesOutWhatWasRecordedAfterTheUpdateThatTheRunResumedAfter) {
  const std::string first = start(0) + train(10, 3, 1) + save(10, 1) + train(20, 2, 2) + valid("a", 20, "1", 2, true);
  EXPECT_THAT(texts_of(first + start(10) + train(20, 2.5, 4)), ElementsAre("training loss 10:1:3 20:5:2.5"));
  EXPECT_THAT(texts_of(first + start(0) + train(10, 7, 1)), ElementsAre("training loss 10:1:7"));
  // A run that is resumed validates again if it was stopped there.
  EXPECT_THAT(texts_of(first + start(20) + valid("a", 20, "4", 0, false)),
              ElementsAre("training loss 10:1:3 20:2:2", "a 20:2:4 best 20"));
}

TEST(RunCurves, LeavesOutALineThatWasCutAndEventsOfLaterVersions) {
  const std::string whole = start(0) + R"({"event":"weather","updates":"many"})" + "\n" + train(10, 3, 1);
  for (const char* cut : {"", "{", R"({"event":"train","updates":20)", "\xff"})
    EXPECT_THAT(texts_of(whole + cut), ElementsAre("training loss 10:1:3"));
  EXPECT_THAT(texts_of(""), ElementsAre());
  EXPECT_THAT(texts_of(start(0) + save(4, 1)), ElementsAre());
}

TEST(RunCurves, KeepsAPlaceForAValueThatIsNotFinite) {
  const auto curves = parse_run_curves(start(0) + valid("a", 5, "null", 1, false), "x");
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_TRUE(std::isnan(curves[0].points.at(0).value));
}

TEST(RunCurves, NamesTheLineThatIsNotARecord) {
  const auto refusal = [](const std::string& line) {
    return message_of([&] { parse_run_curves(start(0) + line + "\n", "run/log.jsonl"); });
  };
  const std::string expected = "; expected a line that fovea train wrote";
  EXPECT_EQ(refusal("{"), "run/log.jsonl:2: is not a JSON object" + expected);
  EXPECT_EQ(refusal("[1]"), "run/log.jsonl:2: is not a JSON object" + expected);
  EXPECT_EQ(refusal("{}"), "run/log.jsonl:2: has no text 'event'" + expected);
  EXPECT_EQ(refusal(R"({"event":"train"})"), "run/log.jsonl:2: has no whole number 'updates'" + expected);
  EXPECT_EQ(refusal(R"({"event":"train","updates":1,"elapsed":"x"})"),
            "run/log.jsonl:2: has no number 'elapsed'" + expected);
  for (const char* updates : {"-1", "9223372036854775807", "18446744073709551615"})
    EXPECT_EQ(refusal(cat(R"({"event":"train","updates":)", updates, R"(,"elapsed":1})")),
              "run/log.jsonl:2: has 'updates' outside of 0 to 1000000000000000" + expected);
  for (const char* elapsed : {"-1", "1e300", "null"})
    EXPECT_EQ(refusal(cat(R"({"event":"train","updates":1,"elapsed":)", elapsed, "}")),
              "run/log.jsonl:2: has 'elapsed' outside of 0 to 1e10 seconds" + expected);
}

TEST(RunCurves, ReadsTheSmallestNumber) {
  EXPECT_EQ(parse_run_curves(start(0) + R"({"event":"train","updates":1,"cost":1e-320,"elapsed":1})" + "\n", "x")
                .at(0)
                .points.at(0)
                .value,
            1e-320);
}

TEST(RunCurves, SaysWhatIsWrongWithAFolder) {
  const TestFolder folder;
  const auto refusal = [](const std::string& path) { return message_of([&] { read_run_curves(path); }); };
  EXPECT_THAT(refusal(folder / "none"), HasSubstr("none' is not a folder; expected the folder of a run"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("' has no log.jsonl; expected the folder of a run, where"));
  write_file(folder / "log.jsonl", start(0));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("has no loss and no validation yet; wait for --disp-freq updates"));
  write_file(folder / "log.jsonl", start(0) + train(1, 2, 3));
  EXPECT_EQ(read_run_curves(folder.path()).size(), 1U);
}

}  // namespace
}  // namespace fovea::analysis::run_curves_test
