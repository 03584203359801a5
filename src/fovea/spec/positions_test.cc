#include "fovea/spec/positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "fovea/base/test_message.h"
#include "fovea/spec/model_config.h"

namespace fovea::positions_test {
namespace {

using testing::HasSubstr;

std::string positions_refusal(const std::string& text) {
  return message_of([&] { parse_positions(text); });
}

TEST(Positions, TextsReadBack) {
  for (const char* text :
       {"sinusoidal", "learned", "none", "rotary", "learned+rotary", "rotary(5e+05)+sinusoidal", "shaw", "shaw(4)",
        "shaw(16,values)", "transformer-xl", "transformer-xl(clamp=400)", "alibi",
        "learned+rotary+shaw(8,values)+transformer-xl(clamp=9)+alibi", "image+rotary", "rotary(10000,factor=2.5)",
        "rotary(5e+05,llama3,factor=8,original=8192)", "rotary(10000,llama3,factor=4,original=64,low=2,high=3)",
        "rotary(10000,yarn,factor=4,original=64,slow=2,fast=16,exact,gain=1.5)"})
    EXPECT_EQ(print(parse_positions(text)), text);
  EXPECT_EQ(print(parse_positions(" learned + rotary( 10000 ) ")), "learned+rotary");
  EXPECT_EQ(find_scheme<Rotary>(parse_positions("rotary(2.5e5)"))->base, 2.5e5);
  EXPECT_FALSE(find_scheme<Learned>(parse_positions("rotary")).has_value());
  EXPECT_EQ(print(parse_positions("sinusoidal(first=2)")), "sinusoidal(first=2)");
  EXPECT_EQ(print(parse_positions("shaw( 3 , values )+transformer-xl(clamp=0)")), "shaw(3,values)+transformer-xl");
}

TEST(Positions, ScaledTurnsKeepFastPairsAndSlowOthers) {
  const auto angles = [](const char* text) { return angles_of(find_scheme<Rotary>(parse_positions(text)).value(), 8); };
  const RotaryAngles plain = angles("rotary(100)");
  EXPECT_EQ(plain, rotary_angles(8, 100));
  ASSERT_EQ(plain.frequencies.size(), 4U);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(angles("rotary(100,factor=4)").frequencies[i], plain.frequencies[i] / 4);
  // Over 40 tokens the pairs turn 6.4, 2, 0.64 and 0.2 times.
  const RotaryAngles llama = angles("rotary(100,llama3,factor=8,original=40)");
  EXPECT_EQ(llama.frequencies[0], plain.frequencies[0]);
  const double turns = 40 * plain.frequencies[1] / (2 * 3.14159265358979323846), share = (turns - 1) / 3;
  EXPECT_NEAR(llama.frequencies[1], plain.frequencies[1] * (share + (1 - share) / 8), 1e-12);
  EXPECT_EQ(llama.frequencies[3], plain.frequencies[3] / 8);
  const RotaryAngles yarn = angles("rotary(100,yarn,factor=4,original=40,fast=4,slow=0.5)");
  EXPECT_EQ(yarn.frequencies[0], plain.frequencies[0]);
  EXPECT_EQ(yarn.frequencies[3], plain.frequencies[3] / 4);
  EXPECT_NEAR(yarn.scale, 0.1 * std::log(4.0) + 1, 1e-12);
  EXPECT_EQ(angles("rotary(100,yarn,factor=4,original=40,gain=2)").scale, 2);
}

TEST(Positions, SaysWhatIsWrong) {
  EXPECT_EQ(
      positions_refusal("rotery"),
      "got 'rotery'; expected some of sinusoidal, learned, none, rotary, shaw, transformer-xl, alibi, image, joined "
      "by '+'; did you mean 'rotary'?");
  EXPECT_THAT(positions_refusal(""), HasSubstr("got ''; expected some of"));
  EXPECT_THAT(positions_refusal("learned+"), HasSubstr("got ''; expected some of"));
  EXPECT_EQ(positions_refusal("learned+sinusoidal"),
            "got 'learned+sinusoidal'; sinusoidal and learned are both added to the embeddings, choose one");
  EXPECT_EQ(positions_refusal("image+rotary+learned"),
            "got 'image+rotary+learned'; learned and image are both added to the embeddings, choose one");
  EXPECT_EQ(positions_refusal("rotary+rotary(2)"), "got 'rotary+rotary(2)'; give each scheme once");
  EXPECT_EQ(positions_refusal("none+rotary"), "got 'none+rotary'; 'none' stands alone");
  EXPECT_EQ(positions_refusal("learned(4)"), "got 'learned(4)'; learned takes no argument");
  EXPECT_THAT(positions_refusal("rotary(0)"),
              HasSubstr("got 'rotary(0)'; expected a base between 1 and 1e+12 or 'llama3'"));
  EXPECT_THAT(positions_refusal("rotary(x)"), HasSubstr("e.g. rotary(10000), rotary(10000,factor=2) or"));
  EXPECT_THAT(positions_refusal("rotary(5,llama3,yarn,original=4)"), HasSubstr("two ways of the same, choose one"));
  EXPECT_THAT(positions_refusal("rotary(5,yarn)"), HasSubstr("need original=N"));
  EXPECT_THAT(positions_refusal("rotary(5,original=9)"), HasSubstr("original is of llama3 and yarn"));
  EXPECT_THAT(positions_refusal("rotary(5,low=2)"), HasSubstr("low and high are of llama3"));
  EXPECT_THAT(positions_refusal("rotary(5,llama3,original=8,gain=2)"), HasSubstr("gain are of yarn"));
  EXPECT_THAT(positions_refusal("rotary(5,llama3,original=8,low=4)"), HasSubstr("expected low below high"));
  EXPECT_THAT(positions_refusal("rotary(1,yarn,original=8)"), HasSubstr("yarn needs a base above 1"));
  EXPECT_THAT(positions_refusal("rotary(5,llama3,original=8.5)"), HasSubstr("original=N"));
  EXPECT_EQ(positions_refusal("rotary(3"), "got 'rotary(3'; expected ')' at the end");
  const std::string shaw = "; expected a distance between 1 and 65536 or 'values', e.g. shaw(16) or shaw(16,values)";
  EXPECT_EQ(positions_refusal("shaw(0)"), "got 'shaw(0)'" + shaw);
  EXPECT_EQ(positions_refusal("shaw(2.5)"), "got 'shaw(2.5)'" + shaw);
  EXPECT_EQ(positions_refusal("shaw(4,5)"), "got 'shaw(4,5)'" + shaw);
  EXPECT_EQ(positions_refusal("shaw(4,keys)"), "got 'shaw(4,keys)'" + shaw);
  const std::string xl = "; expected clamp=N, N between 0 and 1e+06, e.g. transformer-xl(clamp=400)";
  EXPECT_EQ(positions_refusal("transformer-xl(400)"), "got 'transformer-xl(400)'" + xl);
  EXPECT_EQ(positions_refusal("transformer-xl(clamp=-1)"), "got 'transformer-xl(clamp=-1)'" + xl);
  EXPECT_EQ(positions_refusal("transformer-xl(clamp=1,clamp=2)"),
            "got 'transformer-xl(clamp=1,clamp=2)'; give each argument once");
  EXPECT_EQ(positions_refusal("shaw(4,values,values)"), "got 'shaw(4,values,values)'; give each argument once");
  EXPECT_EQ(positions_refusal("alibi(8)"), "got 'alibi(8)'; alibi takes no argument");
}

TEST(Positions, RotaryNeedsPairsInEachHead) {
  EncoderDecoderConfig config;
  config.dim_emb = 24;
  config.transformer_heads = 8;
  config.transformer_positions = "rotary";
  EXPECT_EQ(message_of([&] { validate(config); }),
            "--transformer-positions rotary turns pairs of numbers, and each head has 3 (--dim-emb / "
            "--transformer-heads); choose an even number");
  config.transformer_heads = 7;
  EXPECT_EQ(message_of([&] { validate(config); }), "--dim-emb 24 is not a multiple of --transformer-heads 7");
  config.transformer_heads = 4;
  EXPECT_NO_THROW(validate(config));
}

TEST(Positions, ImageNeedsAModelOfImages) {
  EncoderDecoderConfig config;
  config.transformer_positions = "image";
  EXPECT_EQ(message_of([&] { validate(config); }),
            "--transformer-positions image needs images (--task image); choose another scheme");
}

}  // namespace
}  // namespace fovea::positions_test
