#include "fovea/models/tagging/loaded_tagger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"
#include "fovea/models/tagging/test_tagger.h"

// A checkpoint becomes a model that can be run.
namespace fovea::tagging::loaded_tagger_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct SavedTagger {
  TestFolder folder;
  TrainedModelOptions options;
  SavedTagger() {
    options.model = folder / "tagger";
    save_test_tagger(options.model, {{"Anna", "B-PER"}, {"Bonn", "B-LOC"}});
  }
  // Changes the checkpoint.
  void change(const std::function<void(nn::Checkpoint&)>& edit) const {
    nn::Checkpoint checkpoint = nn::load_checkpoint(options.model, nn::Load::kModel);
    edit(checkpoint);
    nn::save_checkpoint(options.model, checkpoint);
  }
  std::string refusal() const {
    return message_of([&] { load_tagger(options); });
  }
};

TEST(LoadedTagger, LabelsInEachPrecisionAndWithOtherMechanisms) {
  SavedTagger test;
  const std::vector<std::vector<std::string>> words = {{"Anna", "in", "Bonn"}, {"in"}};
  for (const char* precision : {"float32", "bfloat16"}) {
    for (const char* attention : {"", "window(1)"}) {
      test.options.precision = precision;
      test.options.attention_encoder = attention;
      const LoadedTagger loaded = load_tagger(test.options);
      EXPECT_FALSE(loaded.model->is_training());
      EXPECT_EQ(loaded.model->output_weight.scalar_type(),
                precision == std::string("float32") ? at::kFloat : at::kBFloat16);
      EXPECT_EQ(loaded.model->config().attention_encoder, attention);
      EXPECT_THAT(tag_sentences(loaded.parts(100), words),
                  ElementsAre(ElementsAre("B-PER", "O", "B-LOC"), ElementsAre("O")));
    }
  }
}

TEST(LoadedTagger, OthersAreRefused) {
  SavedTagger test;
  EXPECT_THAT(message_of([&] {
                models::TrainedModel(test.options, {"translation", "language"}, "--x");
              }),
              HasSubstr("--x: '" + test.options.model +
                        "' is a model of the task tagging; expected one of the tasks translation, language"));
  test.options.attention_decoder = "full";
  EXPECT_THAT(test.refusal(), HasSubstr("--attention-decoder"));
  test.options.attention_decoder = "";
  test.options.model = test.folder / "none";
  EXPECT_THAT(test.refusal(), HasSubstr("--model: no such folder"));
}

TEST(LoadedTagger, ADamagedCheckpointSaysWhatItLacks) {
  SavedTagger test;
  test.change([](nn::Checkpoint& tagger) { tagger.model.erase("output.bias"); });
  EXPECT_THAT(test.refusal(), HasSubstr("model.safetensors: tensor 'output.bias' is missing"));
  test.change([](nn::Checkpoint& tagger) { tagger.identity.files.erase(kLabelsFile); });
  EXPECT_EQ(test.refusal(), test.options.model + ": damaged: it has no labels.txt");
  save_test_tagger(test.options.model, {{"Anna", "B-PER"}});
  test.change([](nn::Checkpoint& tagger) {
    auto config = nn::config_of<TaggingConfig>(tagger.identity, "");
    config.dim_vocabs = {77};
    tagger.identity.config = to_yaml(config);
  });
  EXPECT_THAT(test.refusal(), HasSubstr("config.yml: dim-vocabs: expected ["));
}

}  // namespace
}  // namespace fovea::tagging::loaded_tagger_test
