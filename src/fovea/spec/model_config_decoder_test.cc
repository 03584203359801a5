#include "fovea/spec/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/test_message.h"
#include "fovea/spec/config_yaml.h"
#include "fovea/spec/layer_override.h"

namespace fovea::model_config_decoder_test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string decoder_refusal(const DecoderConfig& config) {
  return message_of([&] { validate(config); });
}

std::string decoder_mechanism(const ModelConfig& config, int64_t layer) {
  return print(attention_of(config, Sublayer::kDecoder, layer));
}

TEST(DecoderConfig, TheDefaultIsValidAndHasPreNorm) {
  const DecoderConfig config;
  EXPECT_NO_THROW(validate(config));
  EXPECT_EQ(config.transformer_norm, "pre");
}

TEST(DecoderConfig, MechanismsByLayer) {
  DecoderConfig config;
  config.attention = "topk(8)";
  config.attention_layers = {"decoder.2-3=relu", "decoder.3=4*full;4*local(9)"};
  EXPECT_NO_THROW(validate(config));
  EXPECT_EQ(decoder_mechanism(config, 0), "8*topk(8)");
  EXPECT_EQ(decoder_mechanism(config, 1), "8*relu");
  EXPECT_EQ(decoder_mechanism(config, 2), "4*full;4*local(9)");
  config.attention_decoder = "window(4)";
  EXPECT_NO_THROW(validate(config));
  EXPECT_EQ(decoder_mechanism(config, 0), "8*window(4)");
}

TEST(DecoderConfig, OverridesSelectInBothPhases) {
  DecoderConfig config;
  config.attention = "topk(8)";
  config.sparsify = "train";
  const ModelConfig changed = with_attention(config, {.attention_decoder = "topk(2)"});
  EXPECT_EQ(changed.sparsify, "both");
  EXPECT_EQ(decoder_mechanism(changed, 0), "8*topk(2)");
  EXPECT_EQ(decoder_mechanism(with_attention(config, {.attention = "relu"}), 5), "8*relu");
}

TEST(DecoderConfig, SpansBringTheirOwnDistances) {
  DecoderConfig config;
  config.attention = "4*span(64,8)+topk(4);4*full";
  for (const char* positions : {"none", "sinusoidal", "learned+rotary"}) {
    config.transformer_positions = positions;
    EXPECT_NO_THROW(validate(config)) << positions;
  }
  for (const char* positions : {"alibi", "shaw(4)", "transformer-xl"}) {
    config.transformer_positions = positions;
    EXPECT_THAT(decoder_refusal(config), HasSubstr("'span' brings its own table of distances")) << positions;
  }
  config.transformer_positions = "rotary+alibi";
  EXPECT_EQ(decoder_refusal(config),
            "--attention: attention '4*span(64,8)+topk(4);4*full': 'span' brings its own table of distances; got "
            "--transformer-positions rotary+alibi, expected positions without alibi, such as rotary or none");
  config.transformer_positions = "none";
  config.span_cold_cache = "zeros";
  EXPECT_THAT(decoder_refusal(config),
              HasSubstr("--span-cold-cache zeros needs span(limit,ramp) in all heads of a layer, as other heads would "
                        "see the zeros"));
  config.attention = "4*span(64,8)+topk(4);4*span(8,1)";
  EXPECT_NO_THROW(validate(config));
  config.attention = "span(64,8)&local(4)";
  EXPECT_THAT(decoder_refusal(config), HasSubstr("'span' joins no other pattern"));
}

TEST(DecoderConfig, OptionsOfAMechanismNeedIt) {
  DecoderConfig config;
  EXPECT_NO_THROW(refuse_idle_options(config));
  config.span_loss = 1e-3;
  EXPECT_EQ(message_of([&] { refuse_idle_options(config); }),
            "--span-loss is an option of span(limit,ramp), but the model does not use it; leave it out");
  config.attention_layers = {"decoder.6=4*full;4*span(8,2)"};
  EXPECT_NO_THROW(refuse_idle_options(config));
  config.routing_keys = "shared", config.routing_decay = 0.9;
  EXPECT_EQ(message_of([&] { refuse_idle_options(config); }),
            "--routing-keys is an option of routed(c,w), but the model does not use it; leave it out; --routing-decay "
            "is an option of routed(c,w), but the model does not use it; leave it out");
  config.attention = "routed(4,16)";
  EXPECT_NO_THROW(refuse_idle_options(config));
  EXPECT_NO_THROW(with_attention(config, {.attention = "full"})) << "an override of a saved model";
  config = {};
  config.sparsify = "train";
  EXPECT_EQ(message_of([&] { refuse_idle_options(config); }),
            "--sparsify train is an option of topk(k) and top-p(p), but the model does not use them; leave it out");
  for (const char* const some : {"decoder.2=routed(4,16)+topk(3)", "decoder.6=4*full;4*top-p(0.5)"}) {
    config.attention_layers = {some};
    EXPECT_NO_THROW(refuse_idle_options(config));
  }
}

// Keys of their own have ranks of their own in a cluster, with which no pattern can be compared.
TEST(DecoderConfig, RoutedHeadsMayHaveKeysOfTheirOwn) {
  DecoderConfig config;
  config.attention = "4*local(8);4*routed(4,16)";
  EXPECT_NO_THROW(validate(config));
  config.routing_keys = "shared";
  EXPECT_NO_THROW(validate(config));
  config.routing_keys = "own";
  EXPECT_NO_THROW(validate(config));
  config.attention = "routed(4,16)+topk(4,keep=local(2))";
  EXPECT_EQ(
      decoder_refusal(config),
      "--attention: attention 'routed(4,16)+topk(4,keep=local(2))': keep= compares the ranks of queries and keys in "
      "a cluster, which differ with --routing-keys own; got keep=local(2), expected topk(4) or --routing-keys "
      "shared");
  config.attention = "routed(4,16)", config.routing_self = "last";
  EXPECT_EQ(message_of([&] { refuse_idle_options(config); }),
            "--routing-self is an option of keys that are the queries, but --routing-keys is own; leave it out");
  config.routing_self = "keep";
  config.attention = "full";
  EXPECT_NO_THROW(validate(config));
  config.routing_start = "random";
  EXPECT_THAT(decoder_refusal(config), HasSubstr("--routing-start: got 'random'; expected one of fixed, faithful"));
}

TEST(DecoderConfig, WholeSegmentsAreRoutedByThePublishedFormAlone) {
  DecoderConfig config;
  EXPECT_FALSE(routes_whole_segments(config));
  config.attention_layers = {"decoder.6=4*full;4*routed(4,16)"};
  EXPECT_TRUE(routes_whole_segments(config));
  for (const char* text : {"routed(4,16,causal)", "routed(4,16,random)"}) {
    config.attention_layers = {std::string("decoder.6=") + text};
    EXPECT_FALSE(routes_whole_segments(config)) << text;
  }
}

// Options for parts that the model does not have.
TEST(DecoderConfig, SaysThatThereIsNoEncoder) {
  DecoderConfig config;
  config.attention_layers = {"encoder.1=full", "cross.1=full", "decoder.7=full", "decode.1=full"};
  const std::string message = decoder_refusal(config);
  EXPECT_THAT(message, HasSubstr("got 'encoder' in 'encoder.1=full'; the model has no encoder, only decoder"));
  EXPECT_THAT(message, HasSubstr("got 'cross' in 'cross.1=full'; the model has no encoder, only decoder"));
  EXPECT_THAT(message, HasSubstr("got layer 7 in 'decoder.7=full'; the model has 6 there"));
  EXPECT_THAT(message, HasSubstr("got 'decode' in 'decode.1=full'; expected decoder; did you mean 'decoder'?"));
  EXPECT_THAT(message, Not(HasSubstr("\n")));
  EXPECT_EQ(message_of([] { with_attention(DecoderConfig{}, {.attention_cross = "full"}); }),
            "--attention-cross: the model has no encoder; use --attention or --attention-decoder");
}

TEST(DecoderConfig, EveryProblemInOneLine) {
  DecoderConfig config;
  config.dim_vocabs = {10, 20};
  config.dim_emb = 100;
  config.transformer_dropout_embedding = -0.5;
  config.transformer_ffn_activation = "glu";
  config.transformer_norm_kind = "batch";
  config.logit_softcap = 0.001;
  const std::string message = decoder_refusal(config);
  EXPECT_THAT(message, HasSubstr("--logit-softcap: got '0.001'; expected 0 for none, or a number from 0.01 on"));
  EXPECT_THAT(message, HasSubstr("--dim-vocabs has 2 numbers; expected one"));
  EXPECT_THAT(message, HasSubstr("--dim-emb 100 is not a multiple of --transformer-heads 8"));
  EXPECT_THAT(message, HasSubstr("--transformer-dropout-embedding: got '-0.5'; expected a rate from 0 to 0.99, or -1"));
  EXPECT_THAT(message, HasSubstr("--transformer-ffn-activation: got 'glu'"));
  EXPECT_THAT(message, HasSubstr("--transformer-norm-kind: got 'batch'"));
}

TEST(DecoderConfig, DropoutOfEmbeddingsFollowsThatOfResiduals) {
  DecoderConfig config;
  config.transformer_dropout = 0.2;
  EXPECT_EQ(embedding_dropout(config), 0.2);
  config.transformer_dropout_embedding = 0;
  EXPECT_EQ(embedding_dropout(config), 0);
}

TEST(DecoderConfig, LearnedPositionsBoundTheText) {
  DecoderConfig config;
  config.max_positions = 100;
  EXPECT_EQ(longest_text(config, 500), 500);
  config.transformer_positions = "rotary+learned";
  EXPECT_EQ(longest_text(config, 500), 99);
  EXPECT_EQ(longest_text(config, 50), 50);
}

TEST(DecoderConfig, PositionsByLayer) {
  DecoderConfig config;
  config.transformer_positions = "rotary(500)";
  config.positions_layers = {"decoder.2-4=rotary(20,factor=2)", "decoder.3=none"};
  EXPECT_NO_THROW(validate(config));
  const auto base = [&](int64_t layer) {
    const auto rotary = rotary_of(config, Sublayer::kDecoder, layer);
    return rotary ? rotary->base / rotary->factor : 0;
  };
  for (const auto& [layer, expected] : {std::pair<int64_t, double>{0, 500}, {1, 10}, {2, 0}, {3, 10}, {4, 500}})
    EXPECT_EQ(base(layer), expected) << layer;
  config.transformer_positions = "learned";
  EXPECT_EQ(base(0), 0);
  EXPECT_EQ(base(1), 10);
  const auto refusal = [&](const std::string& entry) {
    config.positions_layers = {entry};
    return decoder_refusal(config);
  };
  EXPECT_THAT(refusal("decoder.7=rotary"),
              HasSubstr("--positions-layers: got layer 7 in 'decoder.7=rotary'; the model has 6 there"));
  EXPECT_THAT(refusal("encoder.1=rotary"), HasSubstr("the model has no encoder"));
  EXPECT_THAT(refusal("decoder.1=alibi"),
              HasSubstr("got 'alibi'; expected rotary, with its arguments or without, or "));
  EXPECT_THAT(refusal("decoder.1=rotary+alibi"), HasSubstr("got 'rotary+alibi'; expected rotary"));
  EXPECT_THAT(refusal("decoder.1=rotary(0)"), HasSubstr("expected a base between 1 and"));
  EXPECT_THAT(refusal("1-2"), HasSubstr("expected WHERE.LAYERS=SPEC"));
  config.transformer_dim_head = 7;
  EXPECT_THAT(refusal("decoder.1=rotary"), HasSubstr("rotary turns pairs of numbers, and each head has 7"));
  EXPECT_EQ(refusal("decoder.1=none"), "nothing was thrown");
}

TEST(DecoderConfig, ReadsBackAsYaml) {
  DecoderConfig config, read;
  config.transformer_positions = "rotary";
  config.dim_vocabs = {260};
  from_yaml(to_yaml(config), "config.yml", read);
  EXPECT_EQ(to_yaml(read), to_yaml(config));
  EXPECT_THAT(to_yaml(config), Not(HasSubstr("enc")));
}

}  // namespace
}  // namespace fovea::model_config_decoder_test
