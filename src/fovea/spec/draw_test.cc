#include "fovea/spec/draw.h"

#include <gtest/gtest.h>

namespace fovea::draw_test {
namespace {

TEST(Draw, OneMechanism) {
  EXPECT_EQ(draw(parse_layer_spec("window(3)|global(1)+topk(2)+softmax"), 4, AttentionKind::kSelf),
            "window(3)|global(1)+topk(2)\n####\n###.\n####\n#.##\n"
            "Of a query's candidates, the 2 with the greatest scores are selected\n");
  EXPECT_EQ(draw(parse_layer_spec("full"), 3, AttentionKind::kCausal), "full\n#..\n##.\n###\n");
}

TEST(Draw, ABlockAHeadGroup) {
  EXPECT_EQ(draw(parse_layer_spec("2*local(1);1*full"), 2, AttentionKind::kSelf),
            "2*local(1);1*full\n\n2*local(1)\n#.\n.#\n\n1*full\n##\n##\n");
}

TEST(Draw, OfRoutedHeadsOneLine) {
  const std::string line = "The candidates of routed depend on the data: those of a query share a cluster with it\n";
  EXPECT_EQ(
      draw(parse_layer_spec("routed(2,4,causal)+topk(2)"), 3, AttentionKind::kCausal),
      "routed(2,4,causal)+topk(2)\n" + line + "Of a query's candidates, the 2 with the greatest scores are selected\n");
  EXPECT_EQ(draw(parse_layer_spec("2*local(1);1*routed(2,4)"), 2, AttentionKind::kSelf),
            "2*local(1);1*routed(2,4)\n\n2*local(1)\n#.\n.#\n\n1*routed(2,4)\n" + line);
}

TEST(Draw, OwnBlocksAndThoseAmongWhichTheDataChoose) {
  EXPECT_EQ(draw(parse_layer_spec("blocktopk(2,2)"), 5, AttentionKind::kCausal),
            "blocktopk(2,2)\n#....\n##...\n++#..\n++##.\n++++#\n"
            "#: the query's own block; +: of these blocks of 2, the 1 with the greatest scores are seen too\n");
  EXPECT_EQ(draw(parse_layer_spec("blocktopk(2,1,bounds)"), 3, AttentionKind::kSelf),
            "blocktopk(2,1,bounds)\n##.\n##.\n..#\n");
}

TEST(Draw, StagesThatReadALengthSayIt) {
  EXPECT_EQ(draw(parse_layer_spec("sigmoid"), 1, AttentionKind::kSelf),
            "sigmoid\n#\nTraining sets the bias of sigmoid to -ln(greatest length) and stores it: "
            "sigmoid(-6.931471805599453) for 1,024 tokens\n");
  EXPECT_EQ(draw(parse_layer_spec("sigmoid(-2)"), 1, AttentionKind::kSelf), "sigmoid(-2)\n#\n");
  EXPECT_EQ(draw(parse_layer_spec("softcap(0.5)"), 1, AttentionKind::kSelf),
            "softcap(0.5)\n#\nEach score s becomes 0.5 tanh(s / 0.5)\n");
  EXPECT_EQ(draw(parse_layer_spec("topk(2)+scaled"), 1, AttentionKind::kSelf),
            "topk(2)+scaled\n#\nOf a query's candidates, the 2 with the greatest scores are selected\n"
            "A query with n candidates is multiplied by s ln(n), s learned for each head\n");
  EXPECT_EQ(
      draw(parse_layer_spec("sparsemax+scaled"), 1, AttentionKind::kSelf),
      "sparsemax+scaled\n#\nA query with n candidates is multiplied by 1 + softplus(x b) (ln(n + 1))^(2 tanh(x g)), "
      "x the layer's input\n");
}

TEST(Draw, PositionsNeedSelfAttention) {
  EXPECT_THROW(draw(parse_layer_spec("local(2)"), 3, AttentionKind::kCross), Error);
  EXPECT_THROW(draw(parse_layer_spec("2*relu+rmsnorm;2*relu+layernorm"), 3, AttentionKind::kSelf), Error);
  EXPECT_THROW(draw(parse_layer_spec("2*dsa(4);2*full"), 3, AttentionKind::kCausal), Error);
  EXPECT_EQ(draw(parse_layer_spec("random(3)"), 2, AttentionKind::kCross), "random(3)\n##\n##\n");
}

}  // namespace
}  // namespace fovea::draw_test
