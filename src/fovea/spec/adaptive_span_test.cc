#include "fovea/spec/adaptive_span.h"

#include <gtest/gtest.h>

#include <limits>

#include "fovea/spec/attention_config.h"

namespace fovea::adaptive_span_test {
namespace {

// The published code computes max_size = ceil(z limit) + ramp within the limit, and cuts a row by multiples of 64.
TEST(AdaptiveSpan, ReachesItsMaskAndUpTo63KeysMore) {
  const AdaptiveSpan span{8192, 32};
  EXPECT_EQ(reach_of(span, 0), 64);              // 32 keys
  EXPECT_EQ(reach_of(span, 32.0 / 8192), 64);    // 64
  EXPECT_EQ(reach_of(span, 32.5 / 8192), 128);   // 65
  EXPECT_EQ(reach_of(span, 390.0 / 8192), 448);  // 422
  EXPECT_EQ(reach_of(span, 1), 8192);
  // A damaged model.
  EXPECT_EQ(reach_of(span, std::numeric_limits<double>::quiet_NaN()), reach_of(span, 0));
  EXPECT_EQ(reach_of(span, -1e300), reach_of(span, 0));
  EXPECT_EQ(reach_of(span, std::numeric_limits<double>::infinity()), 8192);
  EXPECT_EQ(reach_of(span, 0.9999), 8192);
  EXPECT_EQ(reach_of({100, 5}, 0), 36);     // 100 - 64
  EXPECT_EQ(reach_of({100, 5}, 0.5), 100);  // 55: only 45 to cut
  EXPECT_EQ(reach_of({3, 500}, 0), 3);
  EXPECT_EQ(reach_of({64, 1}, 0), 64);  // at least one key stays
  for (int64_t length = 0; length <= 300; ++length) {
    const double z = static_cast<double>(length) / 300;
    EXPECT_GE(reach_of({300, 7}, z), std::min<int64_t>(300, length + 7));
  }
}

TEST(AdaptiveSpan, LengthsInTokens) {
  EXPECT_EQ(span_of({100, 30}, 0.25), 25);
  EXPECT_EQ(span_with_ramp({100, 30}, 0.25), 55);
  EXPECT_EQ(span_with_ramp({100, 30}, 0), 30);
  EXPECT_EQ(span_with_ramp({100, 30}, 0.9), 100) << "no key lies behind the limit";
}

TEST(AdaptiveSpan, NeighboursOfOneReachMakeAGroup) {
  const LayerSpec layer = resolve(parse_layer_spec("5*span(8192,32)+topk(8);2*local(16);1*span(256,8)"), 8);
  EXPECT_EQ(print(cut_spans(layer, {64, 64, 128, 64, 9000, 0, 0, 128})),
            "2*span(64,32)+topk(8);1*span(128,32)+topk(8);1*span(64,32)+topk(8);1*span(8192,32)+topk(8);2*local(16);"
            "1*span(128,8)");
  EXPECT_EQ(longest_span(layer), 8192);
  EXPECT_EQ(longest_span(parse_layer_spec("local(4)")), 0);
  const auto heads = spans_of_heads(layer);
  ASSERT_EQ(heads.size(), 8U);
  EXPECT_EQ(heads[4], (AdaptiveSpan{8192, 32}));
  EXPECT_EQ(heads[5], std::nullopt);
  EXPECT_EQ(heads[7], (AdaptiveSpan{256, 8}));
}

// A query that sees itself and 4 keys before it.
TEST(AdaptiveSpan, IsCutToTheReachOfALayer) {
  EXPECT_EQ(print(within_reach(parse_layer_spec("4*span(64,8)+topk(2);4*span(3,1)"), 5)),
            "4*span(4,8)+topk(2);4*span(3,1)");
}

}  // namespace
}  // namespace fovea::adaptive_span_test
