#include "fovea/spec/config_yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/error.h"
#include "fovea/base/test_message.h"
#include "fovea/spec/decode_config.h"
#include "fovea/spec/model_config.h"
#include "fovea/spec/train_config.h"

namespace fovea::config_yaml_test {
namespace {

std::string refusal(std::string_view text) {
  return message_of([&] {
    EncoderDecoderConfig config;
    from_yaml(text, "x.yml", config);
  });
}

TEST(ConfigYaml, EveryFieldSurvivesTheRoundTrip) {
  TrainConfig train;
  train.valid_metrics = {"a: b", "c\"d"};
  train.learn_rate = 0.1 + 0.2;
  train.overwrite = true;
  TrainConfig back;
  from_yaml(to_yaml(train), "x", back);
  EXPECT_EQ(to_yaml(back), to_yaml(train));
  EXPECT_EQ(back.valid_metrics, train.valid_metrics);
  EXPECT_EQ(back.learn_rate, train.learn_rate);
  EXPECT_TRUE(back.overwrite);
  EncoderDecoderConfig model;
  from_yaml("dim-emb: 128\nattention-layers: [\"encoder.1=window(16)\"]\n", "x", model);
  EXPECT_EQ(model.dim_emb, 128);
  EXPECT_THAT(model.attention_layers, testing::ElementsAre("encoder.1=window(16)"));
}

TEST(ConfigYaml, SaysWhatIsWrong) {
  EXPECT_EQ(refusal("dim-enb: 3"), "x.yml:1: unknown key 'dim-enb'; did you mean 'dim-emb'?");
  EXPECT_EQ(refusal("dim-emb: x"),
            "x.yml:1: dim-emb: got 'x'; expected a whole number of at least 1 and at most 65,536");
  EXPECT_EQ(refusal("transformer-norm: pst"),
            "x.yml:1: transformer-norm: got 'pst'; expected one of post, pre, sandwich; did you mean 'post'?");
  EXPECT_THAT(refusal("a: [1"), testing::HasSubstr("not YAML at line"));
  EXPECT_THAT(refusal("dim-emb: 16\n---\ndim-enb: 3\n"), testing::HasSubstr("has 2 YAML documents"));
  EXPECT_THAT(refusal("dim-emb: 16\n...\na: [1"), testing::HasSubstr("not YAML at line"));
  for (const std::string stray : {",", ", dim-emb: 16", ",,"})
    EXPECT_EQ(refusal("\n" + stray + "\n"),
              "x.yml: not YAML at line 2, column 1: what stands here belongs to nothing; take it out");
  for (const char* text : {"transformer-norm: \"a\\N\"", "transformer-norm: \"a\\_b\"", "attention-layers: [\xff]"})
    EXPECT_THAT(refusal(text), testing::HasSubstr("got a text that is not UTF-8"));
  EXPECT_EQ(refusal("dim-emb: {a: 1}"), "x.yml:1: dim-emb: expected a value or a list of values");
  EXPECT_EQ(refusal("\n# sizes\ndim-emb: ~"),
            "x.yml:3: dim-emb: got null; expected one value; to keep the default leave the line out");
  EXPECT_EQ(refusal("attention-layers:\n"),
            "x.yml:1: attention-layers: got null; expected a list of values, or [] for none; to keep the default leave "
            "the line out");
}

// The names of other systems are known as on the command line.
TEST(ConfigYaml, HasALimit) {
  constexpr size_t kMost = size_t{1} << 20;
  const std::string begin = "# ", end = "\ndim-emb: 128\n";
  const auto text = [&](size_t bytes) { return begin + std::string(bytes - begin.size() - end.size(), 'x') + end; };
  EncoderDecoderConfig config;
  from_yaml(text(kMost), "x.yml", config);
  EXPECT_EQ(config.dim_emb, 128);
  EXPECT_EQ(refusal(text(kMost + 1)),
            "x.yml: has 1,048,577 bytes; expected a configuration of at most 1,048,576; is it another file?");
  EXPECT_THROW(values_of_yaml(text(kMost + 1)), Error);
}

TEST(ConfigYaml, NamesOfOtherSystemsAreTold) {
  EXPECT_EQ(refusal("encoder-layers: 3"), "x.yml:1: unknown key 'encoder-layers'; did you mean 'enc-depth'?");
  EXPECT_EQ(refusal("encoder_layers: 3"), "x.yml:1: unknown key 'encoder_layers'; did you mean 'enc-depth'?");
  EXPECT_EQ(refusal("max_update: 3"), "x.yml:1: unknown key 'max_update'") << "a model has nothing of the kind";
  TrainConfig train;
  EXPECT_EQ(message_of([&] { from_yaml("max_update: 3", "x.yml", train); }),
            "x.yml:1: unknown key 'max_update'; did you mean 'after-batches'?");
}

TEST(ConfigYaml, AllUnknownKeysAreToldAtOnce) {
  TrainConfig train;
  EXPECT_EQ(
      message_of([&] { from_yaml("type: s2s\nafter-batches: 3\nw: 9000\nvalid-frq: 3\n", "x.yml", train); }),
      "x.yml: 3 unknown keys: 'type' (line 1; every model of Fovea is a Transformer; leave it out), 'w' (line 3), "
      "'valid-frq' (line 4; did you mean 'valid-freq'?)");
}

TEST(ConfigYaml, ListsAreOfPlainValues) {
  TrainConfig config;
  EXPECT_THAT(message_of([&] { from_yaml("valid-metrics: [[a, b], c]", "x", config); }),
              testing::HasSubstr("expected a list of plain values"));
}

TEST(ConfigYaml, NumbersTakeUnits) {
  TrainConfig config;
  from_yaml("after-batches: 8K\nlearn-rate: 5e-4", "x", config);
  EXPECT_EQ(config.after_batches, 8000);
  EXPECT_EQ(config.learn_rate, 5e-4);
}

TEST(ConfigYaml, FlagsTakeTheUsualWords) {
  TrainConfig config;
  for (const char* yes : {"true", "True", "TRUE", "yes", "on", "1"}) {
    config.quiet = false;
    from_yaml(std::string("quiet: ") + yes, "x", config);
    EXPECT_TRUE(config.quiet) << yes;
  }
  for (const char* no : {"false", "False", "FALSE", "no", "off", "0"}) {
    config.quiet = true;
    from_yaml(std::string("quiet: ") + no, "x", config);
    EXPECT_FALSE(config.quiet) << no;
  }
}

TEST(ConfigYaml, ScalarsAreThoseThatAFieldOfOneValueTakes) {
  using Values = std::map<std::string, std::string>;
  EXPECT_EQ(scalars_of_yaml("task: [language]\nafter_epochs: 3\nvocabs: [a, b]\nvalid-sets: []\n"),
            (Values{{"task", "language"}, {"after-epochs", "3"}}));
}

TEST(ConfigYaml, EveryFieldCanBeRequired) {
  EncoderDecoderConfig config;
  const auto missing = [&](const std::string& text) {
    return message_of([&] { require_every_field(text, "x.yml", field_views(config)); });
  };
  EXPECT_EQ(missing(to_yaml(config)), "nothing was thrown");
  EXPECT_EQ(missing("enc-depth: 3\ndim-emb: 5\n"),
            "x.yml: the key 'dec-depth' is missing; expected every option of the model");
}

}  // namespace
}  // namespace fovea::config_yaml_test
