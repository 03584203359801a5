#include "fovea/spec/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/test_message.h"

namespace fovea::model_config_encoder_test {
namespace {

using testing::HasSubstr;

std::string problem(const EncoderConfig& config) {
  return message_of([&] { validate(config); });
}

TEST(EncoderConfig, MechanismsAreTheEncoders) {
  EncoderConfig config;
  config.attention = "topk(4)";
  config.attention_layers = {"encoder.2=window(3)"};
  EXPECT_EQ(problem(config), "nothing was thrown");
  EXPECT_EQ(print(attention_of(config, Sublayer::kEncoder, 0)), "8*topk(4)");
  EXPECT_EQ(print(attention_of(config, Sublayer::kEncoder, 1)), "8*window(3)");
  config.attention_encoder = "sparsemax";
  EXPECT_EQ(print(attention_of(config, Sublayer::kEncoder, 0)), "8*sparsemax");
  config.attention_layers.clear();
  EXPECT_EQ(with_attention(config, {.attention = "full"}).attention_encoder, "");
  EXPECT_EQ(with_attention(config, {.attention_encoder = "full"}).attention_encoder, "full");
}

TEST(EncoderConfig, SaysWhatIsWrong) {
  EncoderConfig config;
  config.attention_layers = {"decoder.1=full"};
  EXPECT_THAT(problem(config), HasSubstr("got 'decoder' in 'decoder.1=full'; the model has no decoder, only encoder"));
  config.attention_layers.clear();
  config.dim_vocabs = {1, 2};
  EXPECT_THAT(problem(config), HasSubstr("--dim-vocabs has 2 numbers; expected one"));
  config.dim_vocabs = {-1};
  EXPECT_THAT(problem(config), HasSubstr("--dim-vocabs -1 is negative"));
  config.dim_vocabs = {0};
  EXPECT_EQ(message_of([&] { with_attention(config, {.attention_decoder = "full"}); }),
            "--attention-decoder: the model has no decoder; use --attention or --attention-encoder");
}

TEST(EncoderConfig, OptionsOfAMechanismNeedIt) {
  EncoderConfig config;
  config.span_start = 0.5, config.span_cold_cache = "zeros";
  EXPECT_EQ(message_of([&] { refuse_idle_options(config); }),
            "--span-start is an option of span(limit,ramp), but the model does not use it; leave it out; "
            "--span-cold-cache is an option of span(limit,ramp), but the model does not use it; leave it out");
}

}  // namespace
}  // namespace fovea::model_config_encoder_test
