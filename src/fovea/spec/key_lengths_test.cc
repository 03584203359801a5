#include "fovea/spec/key_lengths.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea::key_lengths_test {
namespace {

std::string sigmoid(double length) { return cat("sigmoid(", shortest(-std::log(length)), ")"); }

TEST(KeyLengths, OneLengthIsSetInTheSharedMechanism) {
  EncoderDecoderConfig config;
  config.attention = "topk(8)+sigmoid";
  set_biases(config, {100, 100, 100});
  EXPECT_EQ(config.attention, "topk(8)+" + sigmoid(100));
  EXPECT_EQ(config.attention_cross + config.attention_encoder + config.attention_decoder, "");
  const std::string kept = config.attention;
  set_biases(config, {7, 7, 7});
  EXPECT_EQ(config.attention, kept) << "another length changes no bias that is set";
}

TEST(KeyLengths, SublayersOfOtherLengthsNeedMechanismsOfTheirOwn) {
  EncoderDecoderConfig config;
  config.attention = "window(9)+sigmoid";
  EXPECT_EQ(
      message_of([&] {
        set_biases(config, {64, 20, 64});
      }),
      "--attention: got 'window(9)+sigmoid', whose bias is -ln(greatest length), for sublayers of several lengths; "
      "give each its own by --attention-encoder, --attention-decoder, --attention-cross");
  config.attention_decoder = "window(9)+sigmoid";
  config.attention_layers = {"decoder.2=sigmoid", "encoder.1=full", "cross.1-2=sigmoid(-1)"};
  set_biases(config, {64, 20, 64});
  EXPECT_EQ(config.attention, "window(9)+" + sigmoid(64));
  EXPECT_EQ(config.attention_encoder, "");
  EXPECT_EQ(config.attention_decoder, "window(9)+" + sigmoid(20));
  EXPECT_EQ(config.attention_cross, "") << "it is the shared one without the window";
  EXPECT_EQ(config.attention_layers[0], "decoder.2=" + sigmoid(20));
  EXPECT_EQ(config.attention_layers[1], "encoder.1=full");
  EXPECT_EQ(config.attention_layers[2], "cross.1-2=sigmoid(-1)");
}

TEST(KeyLengths, AMechanismWithItsBiasCompletesTheOneWithout) {
  EXPECT_TRUE(completes("topk(8)+sigmoid(-4.5)", "sigmoid+topk(8)"));
  EXPECT_TRUE(completes("2*sigmoid(-4);2*sigmoid(-1)", "2*sigmoid;2*sigmoid(-1)"));
  EXPECT_TRUE(completes("topk(8,keep=window(4))+sigmoid(-4)", "topk(8,keep=window(4))+sigmoid"));
  EXPECT_TRUE(completes("decoder.2=sigmoid(-4)", "decoder.2=sigmoid"));
  for (const auto& [complete, open] :
       std::vector<std::pair<std::string, std::string>>{{"sigmoid(-4)", "sigmoid(-4)"},
                                                        {"sigmoid", "sigmoid"},
                                                        {"sigmoid(-4)", "topk(2)+sigmoid"},
                                                        {"2*sigmoid(-4);2*sigmoid(-1)", "2*sigmoid;2*sigmoid(-2)"},
                                                        {"relu", "sigmoid"},
                                                        {"decoder.1=sigmoid(-4)", "decoder.2=sigmoid"},
                                                        {"sigmoid(-4)", "decoder.2=sigmoid"},
                                                        {"post", "pre"},
                                                        {"", ""}})
    EXPECT_FALSE(completes(complete, open)) << complete << " " << open;
}

TEST(KeyLengths, MechanismsOfSublayersAreSet) {
  EncoderDecoderConfig config;
  config.attention_encoder = "sigmoid";
  config.attention_cross = "4*sigmoid;4*full";
  set_biases(config, {64, 0, 50});
  EXPECT_EQ(config.attention, "full");
  EXPECT_EQ(config.attention_encoder, sigmoid(64));
  EXPECT_EQ(config.attention_cross, "4*" + sigmoid(50) + ";4*full");
}

TEST(KeyLengths, WithoutALengthTheNumberMustBeGiven) {
  EncoderConfig config;
  config.attention = "relu+rmsnorm";
  EXPECT_NO_THROW(set_biases(config, {}));
  config.attention = "sigmoid";
  EXPECT_EQ(message_of([&] { set_biases(config, {}); }),
            "--attention: got 'sigmoid' for the encoder, where no option limits the number of keys to set the bias of "
            "sigmoid by; give the number, such as sigmoid(-6.931471805599453) for 1,024 keys");
}

TEST(KeyLengths, AnOverrideOfATrainedModelNeedsTheNumber) {
  DecoderConfig config;
  EXPECT_EQ(
      message_of([&] { with_attention(config, {.attention = "full+sigmoid"}); }),
      "--attention: training sets the bias of sigmoid to -ln(greatest length), and this model is trained (decoder); "
      "give the number, such as sigmoid(-6.931471805599453) for 1,024 keys");
  EXPECT_NO_THROW(with_attention(config, {.attention = "sigmoid(-3)"}));
}

}  // namespace
}  // namespace fovea::key_lengths_test
