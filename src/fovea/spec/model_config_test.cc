#include "fovea/spec/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"
#include "fovea/spec/decode_config.h"
#include "fovea/spec/score_config.h"
#include "fovea/spec/train_config.h"

namespace fovea::model_config_test {
namespace {

using testing::HasSubstr;
using testing::Not;

template <class Config>
std::string refusal(const Config& config) {
  return message_of([&] { validate(config); });
}

std::string mechanism(const ModelConfig& config, Sublayer sublayer, int64_t layer) {
  return print(attention_of(config, sublayer, layer));
}

TEST(ModelConfig, TheDefaultIsValid) { EXPECT_NO_THROW(validate(EncoderDecoderConfig{})); }

TEST(ModelConfig, MechanismsBySublayerAndLayer) {
  EncoderDecoderConfig config;
  config.attention = "topk(8)";
  config.attention_decoder = "window(16)";
  config.attention_layers = {"encoder.2-3=relu", "cross.6=topk(4)", "encoder.3=4*full;4*local(9)"};
  EXPECT_NO_THROW(validate(config));
  EXPECT_EQ(mechanism(config, Sublayer::kEncoder, 0), "8*topk(8)");
  EXPECT_EQ(mechanism(config, Sublayer::kEncoder, 1), "8*relu");
  EXPECT_EQ(mechanism(config, Sublayer::kEncoder, 2), "4*full;4*local(9)");
  EXPECT_EQ(mechanism(config, Sublayer::kDecoder, 2), "8*window(16)");
  EXPECT_EQ(mechanism(config, Sublayer::kCross, 4), "8*topk(8)");
  EXPECT_EQ(mechanism(config, Sublayer::kCross, 5), "8*topk(4)");
  EXPECT_EQ(print(without_selection(attention_of(config, Sublayer::kCross, 5))), "8*full");
}

// A mechanism given for one sort of attention changes no other sort, and selects there though the model selected in
// training only.
TEST(ModelConfig, OverridesOneSortOfAttention) {
  EncoderDecoderConfig config;
  config.attention = "topk(8)";
  config.attention_cross = "topk(4)+relu";
  config.attention_layers = {"decoder.2=4*topk(3);4*window(5)+topk(2)", "encoder.1=topk(1)"};
  config.sparsify = "train";
  const ModelConfig changed = with_attention(config, {.attention_encoder = "topk(2)"});
  EXPECT_EQ(changed.sparsify, "both");
  EXPECT_EQ(mechanism(changed, Sublayer::kEncoder, 0), "8*topk(2)");
  for (int64_t layer = 0; layer < 6; ++layer) {
    for (const Sublayer sublayer : {Sublayer::kDecoder, Sublayer::kCross}) {
      EXPECT_EQ(mechanism(changed, sublayer, layer), print(without_selection(attention_of(config, sublayer, layer))));
    }
  }
  EXPECT_EQ(mechanism(with_attention(config, {.attention = "topk(2)"}), Sublayer::kDecoder, 1), "8*topk(2)");
  config.sparsify = "both";
  EXPECT_EQ(mechanism(with_attention(config, {.attention_encoder = "full"}), Sublayer::kCross, 0), "8*topk(4)+relu");
  EXPECT_THAT(message_of([&] { with_attention(config, {.attention_cross = "window(3)"}); }),
              HasSubstr("--attention-cross: attention 'window(3)': 'window' compares the positions"));
}

TEST(ModelConfig, EveryProblemInOneLine) {
  EncoderDecoderConfig config;
  config.dim_emb = 100;
  config.transformer_heads = 8;
  config.transformer_norm = "prae";
  config.dim_vocabs = {100, 200};
  config.tied_embeddings_all = true;
  config.attention = "clause(1)";
  config.attention_cross = "window(4)";
  config.attention_layers = {"encoder.9=full", "enc.1=full", "cross.1=4*full", "decoder.2-1=full", "encoder.x=full"};
  const std::string message = refusal(config);
  EXPECT_THAT(message, HasSubstr("--dim-emb 100 is not a multiple of --transformer-heads 8"));
  EXPECT_THAT(message, HasSubstr("--transformer-norm: got 'prae'"));
  EXPECT_THAT(message, HasSubstr("--tied-embeddings-all needs one vocabulary"));
  EXPECT_THAT(message, HasSubstr("'window' compares the positions"));
  EXPECT_THAT(message, HasSubstr("(set --attention-decoder)"));
  EXPECT_THAT(message, HasSubstr("got layer 9 in 'encoder.9=full'; the model has 6 there"));
  EXPECT_THAT(message, HasSubstr("got 'enc' in 'enc.1=full'; expected one of encoder, decoder, cross"));
  EXPECT_THAT(message, HasSubstr("is for 4 heads; the layer has 8"));
  EXPECT_THAT(message, HasSubstr("got layers 2-1"));
  EXPECT_THAT(message, HasSubstr("got 'encoder.x=full'; expected layers from 1"));
  EXPECT_THAT(message, Not(HasSubstr("\n")));
}

TEST(ModelConfig, AMechanismForTheDecoderAloneHasOneReason) {
  EncoderDecoderConfig config;
  config.attention = "span(256,32)";
  EXPECT_EQ(message_of([&] { validate(config); }),
            "--attention: attention 'span(256,32)': 'span' reads the keys before a query, so it needs causal "
            "self-attention, such as a decoder's; got self-attention that is not causal, use full or random(k) there "
            "(set --attention-encoder)");
}

TEST(ModelConfig, CrossAttentionLeavesOutWhatComparesPositions) {
  const auto cross_of = [](const std::string& attention) {
    EncoderDecoderConfig config;
    config.attention = attention;
    config.attention_encoder = "full";  // adaptive spans and causal clusters are for decoders
    if (attention.find("clause") != std::string::npos) config.attention_decoder = "full";
    validate(config);
    return mechanism(config, Sublayer::kCross, 5);
  };
  const std::pair<const char*, const char*> cases[] = {
      {"window(256)+topk(8)", "8*topk(8)"},
      {"window(256)", "8*full"},
      {"4*window(64);4*topk(8)+relu", "4*full;4*topk(8)+relu"},
      {"6*window(3)|global(1);2*random(4)", "6*full;2*random(4)"},
      {"window(16)|random(4)", "8*full"},
      {"window(16)&random(4)+entmax(1.5)", "8*random(4)+entmax(1.5)"},
      {"(window(3)|random(4))&random(8)", "8*random(8)"},
      {"topk(8,keep=window(3))", "8*topk(8)"},
      {"topk(8,keep=window(3)|random(2))", "8*topk(8,keep=random(2))"},
      {"topk(8,keep=window(3)&random(2))", "8*topk(8)"},
      {"routed(2,4,causal)+topk(2)", "8*routed(2,4)+topk(2)"},
      {"span(64,8)+topk(4)", "8*topk(4)"},
      {"clause(1)+sparsemax", "8*sparsemax"},
      {"mix(full,clause(1))+rmsnorm", "8*full+rmsnorm"},
      {"topk(8)+relu", "8*topk(8)+relu"},
  };
  for (const auto& [attention, cross] : cases) {
    const std::string expected = print(parse_layer_spec(cross));
    EXPECT_EQ(cross_of(attention), expected) << attention;
  }
}

TEST(ModelConfig, OwnMechanismsOfCrossAttentionStayAsTheyAre) {
  EncoderDecoderConfig config;
  config.attention = "window(4)+topk(3)";
  config.attention_cross = "window(4)";
  EXPECT_THAT(refusal(config), HasSubstr("--attention-cross: attention 'window(4)': 'window' compares the positions"));
  config.attention_cross = "";
  config.attention_layers = {"cross.2=window(4)"};
  EXPECT_THAT(refusal(config), HasSubstr("--attention-layers: attention 'window(4)': 'window' compares the positions"));
  config.attention_layers = {"cross.2=topk(1)"};
  EXPECT_EQ(mechanism(config, Sublayer::kCross, 0), "8*topk(3)");
  EXPECT_EQ(mechanism(config, Sublayer::kCross, 1), "8*topk(1)");
  EXPECT_EQ(config.attention, "window(4)+topk(3)");
  config.sparsify = "train";
  EXPECT_EQ(mechanism(with_attention(config, {.attention_encoder = "full"}), Sublayer::kCross, 0), "8*full");
  EXPECT_EQ(mechanism(with_attention(config, {.attention = "local(4)+topk(2)"}), Sublayer::kCross, 1), "8*topk(2)");
}

TEST(ModelConfig, OptionsOfAMechanismNeedIt) {
  EncoderDecoderConfig config;
  config.span_loss = 0;
  EXPECT_EQ(message_of([&] { refuse_idle_options(config); }),
            "--span-loss is an option of span(limit,ramp), but the model does not use it; leave it out");
  config.attention_decoder = "span(8,2)";
  EXPECT_NO_THROW(refuse_idle_options(config));
}

TEST(ModelConfig, WidthsAndVocabulariesThatCannotBe) {
  EncoderDecoderConfig config;
  config.transformer_positions = "sinusoidal";
  config.dim_emb = 9;
  config.transformer_heads = 3;
  config.dim_vocabs = {};
  config.attention_layers = {"encoder"};
  std::string message = refusal(config);
  EXPECT_THAT(message, HasSubstr("--dim-emb 9 is odd; --transformer-positions sinusoidal needs pairs"));
  EXPECT_THAT(message, HasSubstr("--dim-vocabs has 0 numbers; expected one or two"));
  EXPECT_THAT(message, HasSubstr("--attention-layers: got 'encoder'; expected WHERE.LAYERS=SPEC"));
  config.transformer_positions = "learned";
  config.dim_vocabs = {8, -1};
  message = refusal(config);
  EXPECT_THAT(message, Not(HasSubstr("is odd")));
  EXPECT_THAT(message, HasSubstr("--dim-vocabs -1 is negative"));
  config.dim_vocabs = {-1};
  EXPECT_THAT(refusal(config), HasSubstr("--dim-vocabs -1 is negative"));
}

TEST(ModelConfig, TiedSourceEmbeddingsNeedOneVocabulary) {
  EncoderDecoderConfig config;
  config.dim_vocabs = {100, 200};
  config.tied_embeddings_all = false;
  config.tied_embeddings_src = true;
  EXPECT_THAT(refusal(config), HasSubstr("--tied-embeddings-src needs one vocabulary"));
  config.dim_vocabs = {100, 100};
  EXPECT_NO_THROW(validate(config));
}

TEST(ModelConfig, ASpecsCaretStaysWhenItIsTheOnlyProblem) {
  EncoderDecoderConfig config;
  config.attention = "topk(8)+rleu";
  EXPECT_THAT(refusal(config),
              HasSubstr("--attention: attention spec, column 9: unknown stage 'rleu'; did you mean 'relu'?"));
  EXPECT_THAT(refusal(config), HasSubstr("\n  topk(8)+rleu\n          ^"));
}

TrainConfig good_training() {
  TrainConfig config;
  config.model = "m";
  config.learn_rate = 0.001;
  return config;
}

TEST(TrainConfig, SaysWhatIsWrong) {
  EXPECT_NO_THROW(validate(good_training()));
  TrainConfig config = good_training();
  config.model = "";
  config.optimizer_params = {0.9, 0.98};
  config.devices = "gpu";
  config.no_reload = config.overwrite = true;
  config.lr_decay = "cosine";
  config.clip_norm = -2;
  const std::string message = refusal(config);
  for (const char* part : {"--model is missing", "--optimizer-params", "--devices: got 'gpu'", "--no-reload keeps",
                           "--lr-decay cosine", "--clip-norm: got '-2'"})
    EXPECT_THAT(message, HasSubstr(part));
}

TEST(TrainConfig, EachOfAdamsNumbersHasItsRange) {
  for (const std::vector<double>& wrong : {std::vector<double>{1, 0.9, 1e-9},
                                           {-0.1, 0.9, 1e-9},
                                           {0.9, 1, 1e-9},
                                           {0.9, -0.1, 1e-9},
                                           {0.9, 0.98, 0},
                                           {0.9, 0.98, 1e-50},
                                           {0.9, 0.98, 1e-39},
                                           {0.9, 0.98, 1e39}}) {
    TrainConfig config = good_training();
    config.optimizer_params = wrong;
    EXPECT_EQ(refusal(config),
              "--optimizer-params: expected beta1 and beta2 in [0, 1) and eps above 0 in float32 (1.2e-38 to 3.4e38), "
              "e.g. 0.9 0.98 1e-9");
  }
  for (const std::vector<double>& right : {std::vector<double>{0, 0, 1e-9}, {0.9, 0.98, 1.2e-38}}) {
    TrainConfig config = good_training();
    config.optimizer_params = right;
    EXPECT_NO_THROW(validate(config));
  }
}

TEST(TrainConfig, OptionsBelongToTheirOptimizer) {
  TrainConfig config = good_training();
  config.adafactor_clip = 2;
  EXPECT_EQ(refusal(config), "--adafactor-clip is an option of --optimizer adafactor, but --optimizer is adam");
  config.optimizer = "adafactor";
  EXPECT_NO_THROW(validate(config));
  config.optimizer_params = {0.9, 0.99, 1e-9};
  EXPECT_EQ(refusal(config), "--optimizer-params is an option of --optimizer adam, but --optimizer is adafactor");
  config = good_training();
  config.optimizer = "adagrad";
  EXPECT_NO_THROW(validate(config)) << "the defaults of others";
  config.clip_norm_tensor = 0.03;
  EXPECT_NO_THROW(validate(config));
  config.weight_decay = 0.1;
  config.adafactor_relative_step = true;
  EXPECT_EQ(refusal(config),
            "--weight-decay is an option of --optimizer adam and adafactor, but --optimizer is adagrad; "
            "--adafactor-relative-step is an option of --optimizer adafactor, but --optimizer is adagrad");
}

TEST(TrainConfig, OptimizersHaveRanges) {
  TrainConfig config = good_training();
  config.optimizer = "adagard";
  EXPECT_THAT(refusal(config), HasSubstr("--optimizer: got 'adagard'; expected one of adam, adagrad, adafactor; did "
                                         "you mean 'adagrad'?"));
  config = good_training();
  config.learn_rate = 2;
  config.weight_decay = 0.5;
  EXPECT_EQ(refusal(config), "--weight-decay 0.5 times --learn-rate 2 is 1 or more; an update would erase the weights");
  config = good_training();
  config.optimizer = "adafactor";
  config.adafactor_decay = 1.5;
  EXPECT_EQ(refusal(config), "--adafactor-decay: got '1.5'; expected a number of at least 0 and at most 1");
}

TEST(TrainConfig, WhatDecaysToTheEndNeedsOne) {
  for (const char* decay : {"cosine", "linear"}) {
    TrainConfig config = good_training();
    config.lr_decay = decay;
    EXPECT_THAT(refusal(config), HasSubstr(cat("--lr-decay ", decay, " needs to know when training ends")));
    TrainConfig batches = config, epochs = config, seconds = config;
    batches.after_batches = epochs.after_epochs = 1, seconds.stop_after_seconds = 0.5;
    for (const TrainConfig& ended : {batches, epochs, seconds}) EXPECT_NO_THROW(validate(ended)) << decay;
  }
}

TEST(TrainConfig, SaysWhatWouldTeachNothing) {
  TrainConfig config = good_training();
  config.learn_rate = 0;
  EXPECT_THAT(refusal(config), HasSubstr("--learn-rate is 0; nothing would be learned"));
  config.learn_rate = -0.5;
  EXPECT_THAT(refusal(config), HasSubstr("--learn-rate: got '-0.5'; expected a rate above 0, or -1"));
  EXPECT_EQ(usual_learn_rate(128), 0.003977);
  EXPECT_EQ(usual_learn_rate(512), 0.001989);
}

TEST(ScoreConfig, SaysWhatIsWrong) {
  ScoreConfig config;
  config.train_sets = {"a"};
  config.devices = "gpu";
  const std::string message = refusal(config);
  for (const char* part : {"--model is missing", "--train-sets has 1 file; expected two, source and target",
                           "--devices: got 'gpu'; expected cpu or the number of a CUDA device"})
    EXPECT_THAT(message, HasSubstr(part));
  config.train_sets = {"-", "-"};
  EXPECT_THAT(refusal(config), HasSubstr("--train-sets: '-', standard input, can be one of the two sides only"));
}

TEST(DecodeConfig, SaysWhatIsWrong) {
  DecodeConfig config;
  config.model = "m";
  EXPECT_NO_THROW(validate(config));
  config.vocabs = {"a"};
  config.n_best = config.scores = true;
  config.attention = "topkk(3)";
  config.beam_size = 0;
  const std::string message = refusal(config);
  for (const char* part : {"--vocabs has 1 file; expected two", "--n-best prints the scores",
                           "--attention: attention spec", "did you mean 'topk'?", "--beam-size: got '0'"})
    EXPECT_THAT(message, HasSubstr(part));
  EXPECT_THAT(message, Not(HasSubstr("\n"))) << "a spec's caret is for a problem that stands alone";
  config = {};
  config.model = "m";
  config.devices = "";
  EXPECT_THAT(refusal(config), HasSubstr("--devices: got ''; expected cpu or the number of a CUDA device"));
}

}  // namespace
}  // namespace fovea::model_config_test
