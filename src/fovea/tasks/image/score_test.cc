#include "fovea/tasks/image/score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numbers>

#include "fovea/base/test_message.h"
#include "fovea/data/image_batches.h"
#include "fovea/models/test_models.h"
#include "fovea/spec/testing/classic_layers.h"
#include "fovea/tasks/image/score_images.h"
#include "fovea/tasks/image/test_run.h"

namespace fovea::image::score_test {
namespace {

using testing::HasSubstr;

// A model of images of `shape` whose weights are all random, so that what it predicts depends on what it reads.
nn::Model image_model(const data::ImageShape& shape, const std::string& attention) {
  ImageConfig config;
  set_classic_layers(config, "pre");
  config.transformer_positions = "image";
  config.dim_emb = 12;
  config.dec_depth = 2;
  config.transformer_heads = 3;
  config.transformer_dim_ffn = 10;
  config.dim_vocabs = {data::kImageSymbols};
  config.attention = attention;
  nn::Model model(config, 3, nn::MediaInput{.image_shape = {shape.height, shape.width, shape.channels}});
  model->eval();
  return model;
}

data::ImageSet some_images(const TestFolder& folder) {
  return data::load_images({write_images(folder / "images", 5, {4, 5, 3}, 3)}, "x");
}

// Each value by a pass of its own over the values before it, with a dense softmax in double.
std::vector<double> dense_log_probs(const nn::Model& model, const data::ImageSet& images, const data::ImageShape& shape,
                                    int64_t top, int64_t left) {
  std::vector<double> sums;
  for (int64_t i = 0; i < images.size(); ++i) {
    std::vector<int64_t> read = {256};
    double sum = 0;
    for (int64_t y = 0; y < shape.height; ++y) {
      for (int64_t x = 0; x < shape.width; ++x) {
        for (int64_t c = 0; c < shape.channels; ++c) {
          const int64_t place = ((top + y) * images.shape().width + left + x) * images.shape().channels + c;
          const int64_t value = images.at(i)[static_cast<size_t>(place)];
          sum += models::next_log_probs(model, read)[value].item<double>();
          read.push_back(value);
        }
      }
    }
    sums.push_back(sum);
  }
  return sums;
}

TEST(ScoreImages, EqualsADenseSoftmaxOverWhatStandsBefore) {
  const TestFolder folder;
  const data::ImageSet images = some_images(folder);
  for (const char* attention : {"full", "2*local(7);1*strided(4)", "blocks(6,1)"}) {
    for (const data::ImageShape& shape : {data::ImageShape{4, 5, 3}, data::ImageShape{2, 2, 3}}) {
      const nn::Model model = image_model(shape, attention);
      const bool is_whole = shape.height == 4;
      const std::vector<double> expected = dense_log_probs(model, images, shape, is_whole ? 0 : 1, is_whole ? 0 : 1);
      std::vector<double> got;
      const ImageScore score = ScoreImages(model, shape, 2).run(images, [&](double p) { got.push_back(p); });
      ASSERT_EQ(got.size(), 5);
      double sum = 0;
      for (size_t i = 0; i < 5; ++i) {
        // 60 float32 numbers near 5.5, each rounded after sums of some dozens.
        EXPECT_NEAR(got[i], expected[i], 1e-3) << attention;
        sum -= got[i];
      }
      EXPECT_DOUBLE_EQ(score.nll, sum);
      EXPECT_EQ(score.images, 5);
      EXPECT_EQ(score.tokens, 5 * shape.values());
      EXPECT_EQ(ScoreImages(model, shape, 5).run(images), score) << "--mini-batch changes nothing";
    }
  }
}

TEST(ScoreImages, MeasuresArePerValue) {
  const ImageScore score = {{.nll = 60 * std::numbers::ln2, .tokens = 20, .correct = 5}, 2};
  EXPECT_DOUBLE_EQ(measures().value(score, "bits-per-dim"), 3);
  EXPECT_DOUBLE_EQ(measures().value(score, "cross-entropy"), 3 * std::numbers::ln2);
  EXPECT_DOUBLE_EQ(measures().value(score, "accuracy"), 0.25);
}

TEST(ScoreImages, SaysWhatIsWrong) {
  ScoreOptions options;
  EXPECT_THAT(message_of([&] { validate(options); }), HasSubstr("--train-sets is missing; expected folders or files"));
  TestRun test;
  test.train.after_batches = 1;
  run(test);
  options.model = test.train.model;
  options.train_sets = {write_images(test.folder / "other", 1, {4, 4, 3}, 1)};
  EXPECT_THAT(message_of([&] { run_score(options); }),
              HasSubstr("--train-sets: got images of 4x4x3 (height x width x channels), but the model reads 4x5x3"));
}

}  // namespace
}  // namespace fovea::image::score_test
