#include "fovea/analysis/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/base/base64.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea::analysis::report_test {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;
using testing::Not;

std::string inflated(const std::string& bytes, size_t size) {
  std::string out(size, '\0');
  uLongf length = size;
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(out.data()), &length, reinterpret_cast<const Bytef*>(bytes.data()),
                       bytes.size()),
            Z_OK);
  EXPECT_EQ(length, size);
  return out;
}

std::string unbase64(const std::string& text) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t digit = digits.find(c);
    if (digit == std::string::npos) break;
    bits = bits << 6U | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) out.push_back(static_cast<char>(bits >> (count -= 8) & 255U));
  }
  return out;
}

std::string element_text(const std::string& html, const std::string& id) {
  const size_t begin = html.find('>', html.find("id=\"" + id + "\"")) + 1;
  return html.substr(begin, html.find("</script>", begin) - begin);
}

TEST(ReportWeights, RoundTripThroughText) {
  Rng rng(3);
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes.push_back(static_cast<char>(rng.below(256)));
  EXPECT_EQ(inflated(unbase64(base64(deflated(bytes))), bytes.size()), bytes);
  EXPECT_LT(deflated(std::string(100'000, '\0')).size(), 200U);
}

TEST(ReportWeights, KeepZerosSignsAndTheRightLevel) {
  const std::vector<float> weights = {0, 1e-12F, 0.25F, 1, -0.25F, -0.0F};
  const HeadWeights head = {weights.data(), 1, 1, 6};
  std::string codes;
  append_weight_codes(head, 0, weight_scale(head, 0), codes);
  EXPECT_EQ(codes, std::string({0, 1, 64, 127, static_cast<char>(128 + 64), 0}));  // round(127 sqrt(1/4)) = 64
  const std::string fewer = with_few_levels(codes);
  EXPECT_EQ(fewer, std::string({0, 1, 24, 47, static_cast<char>(128 + 24), 0}));
}

TEST(ReportWeights, LargeOnesAreScaledAndCausalOnesAreHalf) {
  const std::vector<float> weights = {4, 9, 9, 1, 2, 9, 0, 1, 8};
  const HeadWeights head = {weights.data(), 1, 3, 3, true};
  EXPECT_EQ(head.pairs(), 6);
  std::string codes;
  append_weight_codes(head, 0, 16, codes);
  // sqrt(w / 16) of 4; 1 2; 0 1 8, in 127 levels
  EXPECT_EQ(codes, std::string({64, 32, 45, 0, 32, 90}));
  EXPECT_EQ(weight_scale({weights.data(), 1, 3, 3}, 0), 9);
}

TEST(HeadFigures, FollowTheirDefinitions) {
  const std::vector<float> weights = {0.5F, 0.5F, 0, 0, 0, 0, 0, 0, 2, 0, -1, -1};
  const HeadFigures figures = figures_of({weights.data(), 1, 3, 4}, 0);
  EXPECT_EQ(figures.rows, 3);
  EXPECT_EQ(figures.null_rows, 1);
  EXPECT_EQ(figures.pairs, 12);
  EXPECT_EQ(figures.zeros, 7);
  // ln 2, and 1/2 1/4 1/4: 3/2 ln 2
  EXPECT_NEAR(figures.entropy, 2.5 * std::log(2), 1e-12);
  EXPECT_NEAR(figures.mean_entropy(), 1.25 * std::log(2), 1e-12);
  EXPECT_NEAR(figures.null_share(), 1.0 / 3, 1e-12);
  // The mean of the two rows is 1/2 1/4 1/8 1/8: 7/4 ln 2, less 5/4 ln 2.
  EXPECT_NEAR(figures.mean_information(), 0.5 * std::log(2), 1e-12);
  // Later keys are not pairs.
  const std::vector<float> square = {1, 0, 0.5F, 0.5F};
  EXPECT_EQ(figures_of({square.data(), 1, 2, 2, true}, 0).zeros, 0);
  EXPECT_EQ(figures_of({square.data(), 1, 2, 2, true}, 0).pairs, 3);
  EXPECT_EQ(HeadFigures().mean_entropy() + HeadFigures().zero_share() + HeadFigures().null_share(), 0);
  EXPECT_EQ(HeadFigures().mean_information(), 0);
}

const std::string kHostile = "</script><script>alert(1)</script><!-- \" ' & {{SCRIPT}} \xff \x01 ]]>";

// A model with two heads of cross-attention, over two sentences.
Report small_report(const std::vector<float>& weights) {
  Report report("Title " + kHostile, {{1, {{"Source", kHostile}}}, {4, {{"Source", "b"}}}});
  report.begin_model("model " + kHostile, {{"Mechanism", kHostile}});
  for (size_t sentence = 0; sentence < 2; ++sentence) {
    report.begin_pass(sentence, {{kHostile, "x", "y"}, {"</s>", "a"}, {"a", "</s>"}});
    report.add({ReportSublayer::kCross, 1, {weights.data(), 2, 2, 3}, {{1, {{0, 1}, {}}}}});
  }
  return report;
}

TEST(Report, HoldsTheWeightsThatWereAdded) {
  const std::vector<float> weights = {0.2F, 0.3F, 0.5F, 0, 0, 1, 0, 0, 0, 3, 0.1F, 0};
  const std::string html = small_report(weights).html();
  const auto data = nlohmann::json::parse(element_text(html, "data"));
  const double levels = data["levels"];
  for (size_t pass = 0; pass < 2; ++pass) {
    const auto& shown = data["models"][0]["passes"][pass];
    EXPECT_EQ(shown["sentence"], pass);
    const std::string codes = inflated(unbase64(element_text(html, shown["weights"])), weights.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      const double scale = shown["attentions"][0]["scales"][i / 6];
      EXPECT_EQ(codes[i] == 0, weights[i] == 0.0F) << i;
      // Rounded to the nearest level.
      EXPECT_THAT(static_cast<double>(codes[i]), DoubleNear(levels * std::sqrt(weights[i] / scale), 0.5001)) << i;
    }
    EXPECT_EQ(shown["attentions"][0]["scales"], (nlohmann::json{1.0, 3.0}));
    EXPECT_EQ(shown["attentions"][0]["clusters"], nlohmann::json::parse("[[1, [[0, 1], []]]]"));
  }
  const auto& place = data["models"][0]["statistics"][0];
  EXPECT_EQ(place["rows"], 4);  // two sentences of two rows
  EXPECT_EQ(place["pairs"], 12);
  EXPECT_EQ(place["heads"][0][0], 0.3333);  // 2 of 6
  EXPECT_EQ(place["heads"][1][2], 0.5);     // one of two rows is null
}

TEST(Report, EscapesEveryText) {
  const std::string html = small_report(std::vector<float>(12, 0.25F)).html();
  const std::string data = element_text(html, "data");
  EXPECT_THAT(data, Not(HasSubstr("<")));
  EXPECT_THAT(data, Not(HasSubstr("&")));
  EXPECT_THAT(html, Not(HasSubstr("alert(1)</script>")));
  const auto parsed = nlohmann::json::parse(data);
  std::string readable = kHostile;
  readable.replace(readable.find('\xff'), 1, "\xef\xbf\xbd");  // U+FFFD
  EXPECT_EQ(parsed["models"][0]["passes"][0]["source"][0], readable);
  EXPECT_EQ(parsed["models"][0]["name"], "model " + readable);
  EXPECT_EQ(parsed["sentences"][0]["texts"][0][1], readable);
  // The data, two passes, and the page's own script; the title is text in <title> and <h1>.
  size_t scripts = 0;
  for (size_t at = html.find("<script"); at != std::string::npos; at = html.find("<script", at + 1)) ++scripts;
  EXPECT_EQ(scripts, 4U);
}

TEST(Report, TouchesNoNetwork) {
  const std::string html = small_report(std::vector<float>(12, 0.25F)).html();
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  // The name of SVG's elements is the only address.
  std::string rest = html;
  for (const std::string name = "http://www.w3.org/2000/svg"; rest.find(name) != std::string::npos;)
    rest.erase(rest.find(name), name.size());
  EXPECT_THAT(rest, Not(HasSubstr("http:")));
  EXPECT_THAT(rest, Not(HasSubstr("https:")));
  EXPECT_THAT(rest, Not(HasSubstr("innerHTML")));
}

TEST(Report, HoldsSpansClausesAndTheSweep) {
  const std::vector<float> weights(8, 0.5F);
  Report report("t", {{1, {}}});
  report.begin_model("m", {});
  report.begin_pass(0, {{"a", "b"}, {}, {}});
  report.mark_clauses({1, 0});
  report.mark_clauses({2, 3});
  report.mark_clauses({1, 2});
  report.add({ReportSublayer::kEncoder, 1, {weights.data(), 2, 2, 2}, {}, {{}, 7.06}});
  ReportSweep sweep{"unit " + kHostile, 5, {{kHostile, 1.5}}, {}};
  sweep.plot.names = {"topk(k)"};
  sweep.plot.panels.push_back({"", {{0, {{1, 2.5}, {8, 1.5}}}}});
  report.set_sweep(std::move(sweep));
  const std::string text = element_text(report.html(), "data");
  EXPECT_THAT(text, Not(HasSubstr("<")));
  const auto data = nlohmann::json::parse(text);
  EXPECT_EQ(data["models"][0]["passes"][0]["clauses"], (nlohmann::json{1, 2}));
  EXPECT_EQ(data["models"][0]["statistics"][0]["spans"], (nlohmann::json{nullptr, 7.1}));
  EXPECT_EQ(data["sweep"]["points"][0][1], 1.5);
  EXPECT_EQ(data["sweep"]["curves"][0]["points"], nlohmann::json::parse("[[1.0, 2.5], [8.0, 1.5]]"));
}

TEST(Report, OfManyWeightsHasFewerLevels) {
  const std::vector<float> weights(2'100'000, 1.0F / 1400);
  Report report("t", {{1, {}}});
  report.begin_model("m", {});
  report.begin_pass(0, {});
  for (int layer = 1; layer <= 2; ++layer)
    report.add({ReportSublayer::kEncoder, layer, {weights.data(), 1, 1500, 1400}, {}});
  EXPECT_EQ(nlohmann::json::parse(element_text(report.html(), "data"))["levels"], kFewWeightLevels);
}

TEST(Report, OfTooManyWeightsIsRefused) {
  Report report("t", {{1, {}}});
  report.begin_model("m", {});
  report.begin_pass(0, {});
  EXPECT_EQ(
      message_of([&] {
        report.add({ReportSublayer::kCross, 1, {nullptr, 8, 5000, 5000}, {}});
      }),
      "the report would hold more than 100,000,000 attention weights, which is too much for a browser; show fewer "
      "sentences (--sentences) or shorter ones");
}

}  // namespace
}  // namespace fovea::analysis::report_test
