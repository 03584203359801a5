#include "fovea/metrics/bands.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"
#include "fovea/metrics/evaluate.h"

namespace fovea::metrics::bands_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Line i has `lengths[i]` words.
std::vector<std::string> lines_of(const std::vector<int>& lengths) {
  std::vector<std::string> lines;
  for (const int length : lengths) {
    std::string line;
    for (int word = 0; word < length; ++word) line += cat(word == 0 ? "" : " ", "w", word * 7 % 5);
    lines.push_back(line);
  }
  return lines;
}

TEST(Bands, AreEquallyManySegmentsFromTheShortestToTheLongest) {
  const Bands bands = bands_by_length(lines_of({5, 1, 9, 1, 3, 2, 0}), 3);
  EXPECT_EQ(bands.unit, "words");
  ASSERT_EQ(bands.bands.size(), 3U);
  // By length, and of equal lengths by their order: 6 | 1 3 | 5 4 | 0 2, cut after 7 / 3 and 14 / 3 of them.
  EXPECT_THAT(bands.bands[0].segments, ElementsAre(1, 6));
  EXPECT_THAT(bands.bands[1].segments, ElementsAre(3, 5));
  EXPECT_THAT(bands.bands[2].segments, ElementsAre(0, 2, 4));
  EXPECT_EQ(bands.bands[0].shortest, 0);
  EXPECT_EQ(bands.bands[0].longest, 1);
  EXPECT_EQ(bands.bands[2].shortest, 3);
  EXPECT_EQ(bands.bands[2].longest, 9);
}

TEST(Bands, TextWithoutBlanksIsMeasuredInCharacters) {
  const Bands bands = bands_by_length(std::vector<std::string>{"\u6211\u4eec\u53bb", "\u597d", "\u4ed6\u6765"}, 3);
  EXPECT_EQ(bands.unit, "characters");
  EXPECT_THAT(bands.bands[0].segments, ElementsAre(1));
  EXPECT_THAT(bands.bands[1].segments, ElementsAre(2));
  EXPECT_EQ(bands.bands[2].longest, 3);
}

TEST(Bands, MoreThanThereAreSegmentsAreRefused) {
  EXPECT_EQ(message_of([] {
              bands_by_length(lines_of({1, 2}), 3);
            }),
            "--bands 3: got 2 segments; expected one per band, or fewer bands");
}

// The last field of each line after the head of the table.
std::vector<std::string> last_column(const std::string& report) {
  std::vector<std::string> column;
  bool in_table = false;
  for (const std::string& line : split(report, '\n')) {
    if (in_table && !line.empty()) column.push_back(line.substr(line.rfind(' ') + 1));
    in_table |= line.starts_with("by the length of");
  }
  return column;
}

// The score of a band is that of a report on its lines alone.
TEST(Bands, ScoresAreThoseOfTheirLinesAlone) {
  const std::vector<int> lengths = {6, 9, 5, 12, 7, 8, 20, 6, 15, 11};
  NamedLines references{"ref", lines_of(lengths)}, system{"", references.lines}, baseline{"base", references.lines};
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (i % 3 != 0) system.lines[i] += " extra";
    baseline.lines[i] = cat("other ", references.lines[i]);
  }
  for (const char* metric : {"bleu", "chrf"}) {
    EvaluateOptions options;
    options.metrics = {metric}, options.tokenize = "none", options.bands = 3, options.score_only = true;
    const std::vector<std::string> scores = split(report(options, system, {&references, 1}), '\n');
    options.score_only = false;
    const std::vector<std::string> of_system = last_column(report(options, system, {&references, 1}));
    const std::vector<std::string> of_baseline = last_column(report(options, system, {&references, 1}, {&baseline, 1}));
    options.bands = 0, options.score_only = true;
    const Bands bands = bands_by_length(references.lines, 3);
    ASSERT_EQ(of_system.size(), 4U);  // with its head
    for (size_t b = 0; b < 3; ++b) {
      const auto part = [&](const NamedLines& all) {
        NamedLines own{all.name, {}};
        for (const uint32_t segment : bands.bands[b].segments) own.lines.push_back(all.lines[segment]);
        return own;
      };
      const NamedLines own = part(references);
      const auto alone = [&](const NamedLines& text) {
        return split(report(options, part(text), {&own, 1}), '\n').front();
      };
      EXPECT_EQ(scores[b + 1], alone(system)) << metric << b;
      EXPECT_EQ(of_system[b + 1], alone(system)) << metric << b;
      EXPECT_EQ(of_baseline[b + 1], alone(baseline)) << metric << b;
    }
  }
}

TEST(Bands, GoByTheTextOfTheirOption) {
  const NamedLines references{"ref", lines_of({6, 6, 6, 6})}, source{"src", lines_of({4, 1, 3, 2})};
  EvaluateOptions options;
  options.bands = 2, options.bands_by = "src", options.tokenize = "none";
  const std::string text = report(options, references, {&references, 1}, {}, source);
  EXPECT_THAT(text, HasSubstr("\nby the length of src in words:\n  words  segments    BLEU\n"
                              "    1-2         2  100.00\n    3-4         2  100.00\n"));
  options.json = true;
  EXPECT_THAT(report(options, references, {&references, 1}, {}, source), HasSubstr("\"shortest\": 3,"));
  const NamedLines shorter{"src", lines_of({4, 1, 3})};
  EXPECT_EQ(message_of([&] {
              report(options, references, {&references, 1}, {}, shorter);
            }),
            "evaluate: got 4 translations (ref) and 3 lines of --bands-by (src); expected as many lines of each");
}

TEST(Bands, DoNotGoWithOtherGroupsOfSegments) {
  const NamedLines references{"ref", lines_of({6})};
  EvaluateOptions options;
  options.bands = 1, options.sentence_level = true;
  const auto refusal = [&] { return message_of([&] { report(options, references, {&references, 1}); }); };
  EXPECT_EQ(refusal(), "--bands: groups of segments have scores of their own; leave out --sentence-level");
  options.sentence_level = false, options.documents = true;
  EXPECT_EQ(refusal(), "--bands: groups of segments have scores of their own; leave out --documents");
  options.documents = false, options.bands = 0, options.bands_by = "src";
  EXPECT_EQ(refusal(), "--bands-by: got a file without a number of groups; expected --bands too");
}

}  // namespace
}  // namespace fovea::metrics::bands_test
