#include "fovea/spec/positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/test_message.h"
#include "fovea/spec/model_config.h"

namespace fovea {
namespace {

using testing::HasSubstr;

std::string positions_refusal(const std::string& text) {
  return message_of([&] { parse_positions(text); });
}

TEST(Positions, TextsReadBack) {
  for (const char* text :
       {"sinusoidal", "learned", "none", "rotary", "learned+rotary", "rotary(5e+05)+sinusoidal", "image+rotary"})
    EXPECT_EQ(print(parse_positions(text)), text);
  EXPECT_EQ(print(parse_positions(" learned + rotary( 10000 ) ")), "learned+rotary");
  EXPECT_EQ(find_scheme<Rotary>(parse_positions("rotary(2.5e5)"))->base, 2.5e5);
  EXPECT_FALSE(find_scheme<Learned>(parse_positions("rotary")).has_value());
}

TEST(Positions, SaysWhatIsWrong) {
  EXPECT_EQ(
      positions_refusal("rotery"),
      "got 'rotery'; expected some of sinusoidal, learned, none, rotary, image, joined by '+'; did you mean 'rotary'?");
  EXPECT_THAT(positions_refusal(""), HasSubstr("got ''; expected some of"));
  EXPECT_THAT(positions_refusal("learned+"), HasSubstr("got ''; expected some of"));
  EXPECT_EQ(positions_refusal("learned+sinusoidal"),
            "got 'learned+sinusoidal'; sinusoidal and learned are both added to the embeddings, choose one");
  EXPECT_EQ(positions_refusal("image+rotary+learned"),
            "got 'image+rotary+learned'; learned and image are both added to the embeddings, choose one");
  EXPECT_EQ(positions_refusal("rotary+rotary(2)"), "got 'rotary+rotary(2)'; give each scheme once");
  EXPECT_EQ(positions_refusal("none+rotary"), "got 'none+rotary'; 'none' stands alone");
  EXPECT_EQ(positions_refusal("learned(4)"), "got 'learned(4)'; learned takes no argument");
  EXPECT_EQ(positions_refusal("rotary(0)"), "got 'rotary(0)'; expected a base between 1 and 1e+12, e.g. rotary(10000)");
  EXPECT_EQ(positions_refusal("rotary(x)"), "got 'rotary(x)'; expected a base between 1 and 1e+12, e.g. rotary(10000)");
  EXPECT_EQ(positions_refusal("rotary(3"), "got 'rotary(3'; expected ')' at the end");
}

TEST(Positions, RotaryNeedsPairsInEachHead) {
  ModelConfig config;
  config.dim_emb = 24;
  config.transformer_heads = 8;
  config.transformer_positions = "rotary";
  EXPECT_EQ(message_of([&] { validate(config); }),
            "--transformer-positions rotary turns pairs of numbers, and each head has 3 (--dim-emb / "
            "--transformer-heads); choose an even number");
  config.transformer_heads = 4;
  EXPECT_NO_THROW(validate(config));
}

TEST(Positions, ImageNeedsAModelOfImages) {
  ModelConfig config;
  config.transformer_positions = "image";
  EXPECT_EQ(message_of([&] { validate(config); }),
            "--transformer-positions image needs images (--task image); choose another scheme");
}

}  // namespace
}  // namespace fovea
