#include "fovea/analysis/candidates_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "fovea/analysis/svg.h"
#include "fovea/base/error.h"

namespace fovea::analysis::candidates_picture_test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string candidates(const std::string& spec, int64_t length, AttentionKind kind = AttentionKind::kSelf) {
  return candidates_svg(parse_layer_spec(spec), length, kind);
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The filled cells of panel `panel` as (query, key), read from its path of "M0 1H3V2H0Z".
std::set<std::pair<int, int>> filled_cells(const std::string& svg, size_t panel) {
  const std::string last = "\" fill=\"#0072b2\"/>";
  size_t end = svg.find(last);
  for (; panel > 0; --panel) end = svg.find(last, end + 1);
  const size_t begin = svg.rfind("d=\"", end) + 3;
  std::istringstream path(svg.substr(begin, end - begin));
  std::set<std::pair<int, int>> out;
  char command = 0;
  for (int left = 0, top = 0, right = 0, bottom = 0;
       path >> command >> left >> top >> command >> right >> command >> bottom >> command >> left >> command;) {
    for (int query = top; query < bottom; ++query) {
      for (int key = left; key < right; ++key) EXPECT_TRUE(out.emplace(query, key).second) << "drawn twice";
    }
  }
  return out;
}

TEST(CandidatesPicture, FillsTheCandidatesAlone) {
  for (const AttentionKind kind : {AttentionKind::kSelf, AttentionKind::kCausal}) {
    const bool causal = kind == AttentionKind::kCausal;
    const std::string svg = candidates("1*window(3)|global(1);2*strided(4)", 11, kind);
    const LayerSpec spec = parse_layer_spec("1*window(3)|global(1);2*strided(4)");
    for (size_t group = 0; group < 2; ++group) {
      std::set<std::pair<int, int>> expected;
      for (int query = 0; query < 11; ++query) {
        for (int key = 0; key < (causal ? query + 1 : 11); ++key) {
          if (contains(spec[group].spec.pairs(), {query, 11, causal, group}, key)) expected.emplace(query, key);
        }
      }
      EXPECT_FALSE(expected.empty());
      EXPECT_EQ(filled_cells(svg, group), expected) << group << causal;
    }
    EXPECT_EQ(count_of(svg, "later key"), causal ? 1U : 0U);
  }
}

TEST(CandidatesPicture, HasAPanelPerHeadGroup) {
  const std::string svg = candidates("2*local(3);1*full;1*routed(2,4)", 6);
  EXPECT_EQ(count_of(svg, "font-weight=\"bold\""), 3U);
  EXPECT_EQ(count_of(svg, ">queries<"), 2U);
  EXPECT_THAT(svg, HasSubstr(">1*full<"));
  EXPECT_THAT(svg, HasSubstr("The candidates depend on the data"));
}

TEST(CandidatesPicture, OfManyTokensStaysSmall) {
  const std::string svg = candidates("window(64)", 4096);
  size_t expected = 0;
  for (int64_t query = 0; query < 4096; ++query) {
    for (const Span& span : spans(parse_attention("window(64)").pairs(), {query, 4096}))
      expected += static_cast<size_t>(span.end - span.begin);
  }
  EXPECT_EQ(filled_cells(svg, 0).size(), expected);
  EXPECT_LT(svg.size(), 200'000U);
  EXPECT_LT(candidates("full", 4096).size(), 5'000U);
  EXPECT_THAT(svg, Not(HasSubstr("non-scaling-stroke")));  // lines would cover the cells
}

TEST(CandidatesPicture, RefusesWhatAttentionRefuses) {
  EXPECT_THROW(candidates("local(2)", 3, AttentionKind::kCross), Error);
  EXPECT_THROW(candidates("2*relu+rmsnorm;2*relu+layernorm", 3), Error);
}

TEST(Svg, TextIsEscaped) {
  EXPECT_EQ(escaped_xml("<a b=\"1\">&\x01"), "&lt;a b=&quot;1&quot;&gt;&amp; ");
  EXPECT_EQ(escaped_xml("\xff"), "(not UTF-8)");
  EXPECT_EQ(svg_length(12.04), "12");
  EXPECT_EQ(svg_length(12.36), "12.4");
}

}  // namespace
}  // namespace fovea::analysis::candidates_picture_test
