#include "fovea/metrics/caption_metrics.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

namespace fovea::metrics::caption_metrics_test {
namespace {

using testing::HasSubstr;

// Five images with three to one references.
const NamedLines kCaptions{"",
                           {"a red ball left of a blue box", "a small dog", "two green stars above a red ball",
                            "the the the the the", "a cat sits on the mat near a dog"}};
const std::vector<NamedLines> kReferences = {
    {"",
     {"a red ball is left of a blue box", "one small brown dog", "two stars above a ball", "the blue box",
      "a cat sits on the mat"}},
    {"", {"there is a red ball to the left of a box", "a little dog", "", "a box that is blue", "A cat is on the mat"}},
    {"", {"the blue box is right of the ball", "", " ", "blue", "near a dog a cat sits on a mat"}}};

std::string report_of(const std::vector<std::string>& metrics, int64_t width = 6) {
  EvaluateOptions options;
  options.metrics = metrics;
  options.width = width;
  return report(options, kCaptions, kReferences);
}

// The figures are those of pycocoevalcap 1.2, times 100.
TEST(CaptionMetrics, EqualPycocoevalcap) {
  EXPECT_EQ(report_of({"coco-bleu"}),
            "COCO-BLEU|nrefs:var|case:mixed|tok:none = 49.563540 81.2/67.2/59.0/49.6 (ratio = 1.067 hyp_len = 32 "
            "ref_len = 30)\n");
  EXPECT_EQ(report_of({"cider"}), "CIDEr|nrefs:var|case:mixed|tok:none = 269.282137\n");
}

TEST(CaptionMetrics, OneLineForEachImage) {
  EvaluateOptions options;
  options.sentence_level = options.score_only = true;
  options.width = 4;
  options.metrics = {"cider"};
  EXPECT_EQ(report(options, kCaptions, kReferences), "388.9201\n108.4028\n344.4727\n5.7820\n498.8331\n");
  options.metrics = {"coco-bleu"};
  EXPECT_EQ(report(options, kCaptions, kReferences), "69.1442\n0.0000\n0.0059\n0.0000\n74.7674\n");
}

TEST(CaptionMetrics, LowerCaseOnRequest) {
  EvaluateOptions options;
  options.metrics = {"coco-bleu", "cider"};
  options.lowercase = true;
  const std::vector<NamedLines> upper = {{"", {"A RED ball"}}};
  EXPECT_THAT(report(options, {"", {"a red Ball"}}, upper),
              HasSubstr("COCO-BLEU|nrefs:1|case:lc|tok:none = 3.16 100.0/100.0/100.0/3.2 ("));
}

// A single image has n-grams without weight.
TEST(CaptionMetrics, ASingleImageHasNoCider) {
  EvaluateOptions options;
  options.metrics = {"cider"};
  EXPECT_EQ(report(options, {"", {"a ball"}}, std::vector<NamedLines>{{"", {"a ball"}}}),
            "CIDEr|nrefs:1|case:mixed|tok:none = 0.00\n");
}

TEST(CaptionMetrics, AnImageNeedsAReference) {
  EvaluateOptions options;
  options.metrics = {"coco-bleu", "cider"};
  const std::vector<NamedLines> references = {{"", {"a", ""}}, {"", {"", " "}}};
  EXPECT_EQ(message_of([&] {
              report(options, {"", {"a", "b"}}, references);
            }),
            "COCO-BLEU: line 2 has no reference, only empty lines; expected at least one");
}

// A `java` on the PATH that answers as METEOR does.
class MeteorTest : public testing::Test {
 protected:
  MeteorTest() : path_(std::getenv("PATH")) {
    options_.metrics = {"meteor"};
    options_.meteor_jar = folder_ / "meteor.jar";
    write_file(options_.meteor_jar, "");
    setenv("PATH", cat(folder_.path().string(), ":", path_).c_str(), 1);
  }
  ~MeteorTest() override { setenv("PATH", path_.c_str(), 1); }
  void java(const std::string& script) {
    write_file(folder_ / "java", cat("#!/bin/sh\n", script));
    std::filesystem::permissions(folder_ / "java", std::filesystem::perms::owner_all);
  }
  std::string message() {
    return message_of([&] { report(options_, kCaptions, kReferences); });
  }
  TestFolder folder_;
  std::string path_;
  EvaluateOptions options_;
};

TEST_F(MeteorTest, IsAskedAsItsProtocolSays) {
  java(cat("echo \"$@\" > ", folder_ / "arguments", R"(
while read -r line; do
  echo "$line" >> )",
           folder_ / "lines", R"(
  case $line in
    SCORE*) echo "7 8.0";;
    *) for i in 1 2 3 4 5; do echo 0.1; done; echo 0.25;;
  esac
done)"));
  EXPECT_EQ(report(options_, kCaptions, kReferences),
            "METEOR|nrefs:var|case:mixed|tok:none|lang:en|norm:yes = 25.00\n");
  EXPECT_EQ(read_file(folder_ / "arguments"), cat("-jar -Xmx2G ", options_.meteor_jar, " - - -stdio -l en -norm\n"));
  const std::vector<std::string> lines = read_lines(folder_ / "lines");
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(lines[1], "SCORE ||| one small brown dog ||| a little dog ||| a small dog");
  EXPECT_EQ(lines[5], "EVAL ||| 7 8.0 ||| 7 8.0 ||| 7 8.0 ||| 7 8.0 ||| 7 8.0");
}

TEST_F(MeteorTest, SaysWhatIsWrongInOneLine) {
  java("exit 1");
  EXPECT_EQ(message(),
            cat("--meteor-jar: '", options_.meteor_jar, "' ended without an answer; expected meteor-1.5.jar ",
                "with its data; run java -jar on it to see its message"));
  java("while read -r line; do echo nothing; done");
  EXPECT_THAT(message(), HasSubstr("answered 'nothing'; expected a score"));
  setenv("PATH", folder_.path().c_str(), 1);
  std::filesystem::remove(folder_ / "java");
  EXPECT_EQ(message(),
            "--meteor-jar: METEOR needs Java (Debian's default-jre-headless): cannot run java: No such file or "
            "directory");
  options_.meteor_jar = folder_ / "gone.jar";
  EXPECT_THAT(message(), HasSubstr("--meteor-jar: no such file"));
  options_.meteor_jar = "";
  EXPECT_EQ(message(), "--metrics: meteor is computed by METEOR's own program; expected its file in --meteor-jar");
}

}  // namespace
}  // namespace fovea::metrics::caption_metrics_test
