#include "fovea/inspect/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

namespace fovea::inspect::sweep_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Points = std::vector<std::pair<double, double>>;
using Texts = std::vector<std::string>;

TEST(SweepEntry, ForOneSortLeavesTheOthers) {
  const AttentionOverride given = {.attention = "full", .attention_encoder = "window(4)", .attention_cross = "relu"};
  EXPECT_EQ(override_by(given, "cross=topk(4)"),
            (AttentionOverride{.attention = "full", .attention_encoder = "window(4)", .attention_cross = "topk(4)"}));
  EXPECT_EQ(override_by({}, "encoder=topk(4)"), AttentionOverride{.attention_encoder = "topk(4)"});
  EXPECT_EQ(override_by({}, "decoder=topk(4)"), AttentionOverride{.attention_decoder = "topk(4)"});
}

TEST(SweepEntry, ForAllSortsReplacesThem) {
  const AttentionOverride given = {.attention = "full", .attention_encoder = "window(4)"};
  EXPECT_EQ(override_by(given, "topk(4)"), AttentionOverride{.attention = "topk(4)"});
  EXPECT_EQ(override_by(given, "topk(8,keep=window(8))"), AttentionOverride{.attention = "topk(8,keep=window(8))"})
      << "a sign within a spec names no sort";
}

TEST(SweepEntry, WithoutAMechanismIsRefused) {
  for (const char* entry : {"encoder=", "decoder=", "cross="}) {
    EXPECT_EQ(message_of([&] { override_by({}, entry); }),
              cat("--sweep: got '", entry, "'; expected a mechanism behind '='"));
    EXPECT_THROW(override_by({}, entry), UsageError);
  }
  EXPECT_THAT(message_of([] { override_by({}, ""); }), HasSubstr("--sweep: got ''; expected a mechanism"));
}

TEST(SweepEntry, IsForADecoderThatStandsAlone) {
  EXPECT_EQ(message_of([] {
              require_decoder_entries({"full", "decoder=topk(8)", "topk(8,keep=window(8))"});
            }),
            "nothing was thrown");
  EXPECT_EQ(message_of([] {
              require_decoder_entries({"full", "encoder=full"});
            }),
            "--sweep: got 'encoder=full'; a language model has no encoder, only decoder=SPEC or SPEC");
  EXPECT_EQ(message_of([] { require_decoder_entries({"cross=topk(8)"}); }),
            "--sweep: got 'cross=topk(8)'; a language model has no cross-attention, only decoder=SPEC or SPEC");
  EXPECT_THROW(require_decoder_entries({"cross=topk(8)"}), UsageError);
}

struct SomeOptions : AttentionOverride {
  int64_t other = 0;
};

// The curve of that name in a panel.
const analysis::PlotCurve& curve_of(const analysis::Plot& plot, size_t panel, const std::string& name) {
  for (const analysis::PlotCurve& curve : plot.panels.at(panel).curves)
    if (plot.names.at(curve.name) == name) return curve;
  throw std::out_of_range(name);
}

TEST(SweepPlot, SpecsThatDifferInANumberAreACurve) {
  const Sweep sweep = {.unit = "target token",
                       .points = {{"topk(8)", 1.0}, {"full", 0.5}, {"topk(16)", 0.75}, {"topk(4)", 2.0}}};
  const analysis::Plot plot = sweep_plot(sweep);
  EXPECT_EQ(plot.x_title, "k");
  ASSERT_EQ(plot.panels.size(), 1U) << "no BLEU without a beam";
  EXPECT_EQ(plot.panels[0].title, "loss per target token");
  ASSERT_EQ(plot.panels[0].curves.size(), 2U);
  EXPECT_EQ(curve_of(plot, 0, "topk(k)").points, (Points{{4, 2.0}, {8, 1.0}, {16, 0.75}}))
      << "by the number, not the text";
  EXPECT_FALSE(curve_of(plot, 0, "topk(k)").is_level);
  EXPECT_EQ(curve_of(plot, 0, "full").points, (Points{{4, 0.5}, {16, 0.5}}));
  EXPECT_TRUE(curve_of(plot, 0, "full").is_level);
}

TEST(SweepPlot, OtherSpecsAreLevelLines) {
  const Sweep sweep = {.unit = "unit",
                       .points = {{"topk(8)", 1.0}, {"cross=topk(4)", 0.5}, {"window(2)+topk(4)", 0.25}}};
  const analysis::Plot plot = sweep_plot(sweep);
  EXPECT_EQ(plot.x_title, "") << "there is nothing along the axis";
  ASSERT_EQ(plot.panels.at(0).curves.size(), 3U);
  for (const SweepPoint& point : sweep.points) {
    const analysis::PlotCurve& curve = curve_of(plot, 0, point.spec);
    EXPECT_TRUE(curve.is_level);
    ASSERT_EQ(curve.points.size(), 2U);
    EXPECT_LT(curve.points[0].first, curve.points[1].first);
    for (const auto& [x, y] : curve.points) EXPECT_EQ(y, point.loss);
  }
}

TEST(SweepPlot, NumbersMayBeFractionsAndSortsAreCurvesOfTheirOwn) {
  const analysis::Plot plot = sweep_plot({.unit = "unit",
                                          .points = {{"entmax(2)", 1},
                                                     {"cross=entmax(1.5)", 4},
                                                     {"entmax(1.5)", 2},
                                                     {"cross=entmax(1.25)", 3},
                                                     {"entmax(1.25)", 5}}});
  EXPECT_EQ(curve_of(plot, 0, "entmax(k)").points, (Points{{1.25, 5}, {1.5, 2}, {2, 1}}));
  EXPECT_EQ(curve_of(plot, 0, "cross=entmax(k)").points, (Points{{1.25, 3}, {1.5, 4}}));
}

std::string written(const AnalysisOptions& options, const Sweep& sweep) {
  testing::internal::CaptureStdout();
  write_sweep(options, sweep);
  return testing::internal::GetCapturedStdout();
}

// Losses whose perplexities are 1 and 2.
const Sweep kMeasured = {.unit = "target token", .units = 2343, .points = {{"full", 0}, {"topk(8)", std::log(2.0)}}};

TEST(SweepResult, IsATable) {
  Sweep sweep = kMeasured;
  const std::string plain = written({}, sweep);
  EXPECT_THAT(plain,
              StartsWith("spec     loss      perplexity\nfull     0.000000  1.0000\ntopk(8)  0.693147  2.0000\n"));
  EXPECT_THAT(plain, HasSubstr("\nloss: nats per target token, mean over 2,343\n"));
  EXPECT_THAT(plain, Not(HasSubstr("BLEU")));
  sweep.beam_size = 4, sweep.tokenize = "13a", sweep.points[0].bleu = 0, sweep.points[1].bleu = 33.25;
  const std::string with_bleu = written({}, sweep);
  EXPECT_THAT(with_bleu, HasSubstr("perplexity  BLEU\n"));
  EXPECT_THAT(with_bleu, HasSubstr("0.693147  2.0000      33.25\n"));
  EXPECT_THAT(with_bleu, HasSubstr("BLEU: of the whole text, tokens of 13a, beam 4\n"));
}

TEST(SweepResult, IsAJsonObject) {
  Sweep sweep = kMeasured;
  AnalysisOptions options;
  options.json = true;
  const nlohmann::json plain = nlohmann::json::parse(written(options, sweep));
  EXPECT_EQ(plain["unit"], "target token");
  EXPECT_EQ(plain["units"], 2343);
  ASSERT_EQ(plain["records"].size(), 2U);
  EXPECT_EQ(plain["records"][1]["spec"], "topk(8)");
  EXPECT_EQ(plain["records"][1]["loss"], std::log(2.0)) << "to the bit";
  EXPECT_EQ(plain["records"][0]["perplexity"], 1);
  EXPECT_FALSE(plain["records"][0].contains("bleu"));
  EXPECT_FALSE(plain.contains("beam_size"));
  sweep.beam_size = 4, sweep.points[0].bleu = 0;
  const nlohmann::json with_bleu = nlohmann::json::parse(written(options, sweep));
  EXPECT_EQ(with_bleu["beam_size"], 4);
  EXPECT_EQ(with_bleu["records"][0]["bleu"], 0);
}

}  // namespace
}  // namespace fovea::inspect::sweep_test
