#include "fovea/analysis/cost.h"

#include <gtest/gtest.h>

namespace fovea::analysis::cost_test {
namespace {

AttentionCost cost(const std::string& spec, AttentionKind kind, int64_t length, int64_t heads = 1, int64_t width = 8) {
  return cost_of(resolve(parse_layer_spec(spec), heads), {kind, length, length, width});
}

TEST(Cost, CountsPairs) {
  EXPECT_EQ(cost("full", AttentionKind::kSelf, 10).scored, 100);
  EXPECT_EQ(cost("full", AttentionKind::kCausal, 10).scored, 55);
  EXPECT_EQ(cost("window(3)", AttentionKind::kCausal, 10).scored, 1 + 2 + 8 * 3);
  const AttentionCost best = cost("topk(4)", AttentionKind::kCausal, 10);
  EXPECT_EQ(best.scored, 55);
  EXPECT_EQ(best.weighted, 1 + 2 + 3 + 7 * 4);
  EXPECT_EQ(cost("2*window(1);2*full", AttentionKind::kSelf, 10, 4).scored, 2 * 10 + 2 * 100);
}

TEST(Cost, CountsOperations) {
  const AttentionCost full = cost("full", AttentionKind::kSelf, 10, 2, 8);
  EXPECT_EQ(full.score_flops, 2 * 2 * 8 * 100);
  EXPECT_EQ(full.value_flops, 2 * 2 * 8 * 100);
  EXPECT_EQ(full.bytes, 2 * 2 * 8 * 4 * 20);
  const AttentionCost best = cost("topk(4)", AttentionKind::kSelf, 10, 1, 8);
  EXPECT_EQ(best.value_flops, 2 * 8 * 40);
  EXPECT_EQ(best.bytes, 2 * 8 * 4 * 20 + 8 * 40);
}

// Four heads of queries share two of keys and values: 8 numbers of 4 bytes for 4 * 10 queries and outputs each, and for
// 2 * 10 keys and values each. The pairs and their operations are those of four heads.
TEST(Cost, OfSharedKeyHeads) {
  const LayerSpec spec = resolve(parse_layer_spec("full"), 4);
  const AttentionCost own = cost_of(spec, {AttentionKind::kCausal, 10, 10, 8});
  const AttentionCost shared =
      cost_of(spec, {.kind = AttentionKind::kCausal, .queries = 10, .keys = 10, .head_dim = 8, .key_heads = 2});
  EXPECT_EQ(own.bytes, 8 * 4 * (2 * 40 + 2 * 40));
  EXPECT_EQ(shared.bytes, 8 * 4 * (2 * 40 + 2 * 20));
  EXPECT_EQ(shared.flops(), own.flops());
  EXPECT_EQ(shared.scored, 4 * 55);
}

// Table 4 of Zhang, Titov and Sennrich (2021): D = 512, H = 8 heads.
TEST(Cost, TransformsAsInTheirPaper) {
  constexpr double kHeads = 8, kWidth = 512;
  for (const int64_t length : {100, 1000}) {
    const auto t = static_cast<double>(length);
    EXPECT_EQ(cost("full", AttentionKind::kSelf, length, 8, 64).transform_flops, 3 * kHeads * t * t - kHeads * t);
    EXPECT_EQ(cost("rela-g", AttentionKind::kSelf, length, 8, 64).transform_flops,
              kHeads * t * t + 10 * t * kWidth + t);
  }
}

// Query i has i % 4 + 1 keys of its own block and those of one of the i / 4 others, each of which it scores by a mean.
TEST(Cost, OfChosenBlocks) {
  const AttentionCost blocks = cost("blocktopk(4,2)", AttentionKind::kCausal, 12);
  EXPECT_EQ(blocks.scored, 3 * 10 + 8 * 4);
  EXPECT_EQ(blocks.weighted, blocks.scored);
  EXPECT_EQ(blocks.score_flops, 2 * 8 * (62 + 4 * 1 + 4 * 2));
  EXPECT_EQ(cost("blocktopk(4,2,bounds)", AttentionKind::kCausal, 12).score_flops, 2 * 8 * (62 + 2 * (4 * 1 + 4 * 2)));
  EXPECT_EQ(cost("blocktopk(4,3)", AttentionKind::kSelf, 12).scored, 144);
  EXPECT_EQ(cost("blocktopk(5,2)", AttentionKind::kSelf, 12).scored, 5 * 10 + 5 * 10 + 2 * 7);
  EXPECT_EQ(cost("blocktopk(4,2)+topk(3)", AttentionKind::kSelf, 12).weighted, 36);
}

// Each of c clusters is a sequence of w members.
TEST(Cost, OfClusters) {
  const AttentionCost routed = cost("routed(4,5)", AttentionKind::kCausal, 20);
  EXPECT_EQ(routed.scored, 4 * 15);
  EXPECT_EQ(routed.score_flops, 2 * 8 * (4 * 15 + 4 * 20));
  EXPECT_EQ(cost("routed(4,5,random)", AttentionKind::kCausal, 20).score_flops, 2 * 8 * 4 * 15);
}

}  // namespace
}  // namespace fovea::analysis::cost_test
