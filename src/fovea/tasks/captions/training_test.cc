#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"
#include "fovea/data/png.h"
#include "fovea/tasks/captions/batch.h"
#include "fovea/tasks/captions/caption.h"
#include "fovea/tasks/captions/captioner.h"
#include "fovea/tasks/captions/task.h"
#include "fovea/tasks/test_run.h"
#include "fovea/text/vocab.h"

namespace fovea::captions::training_test {
namespace {

using testing::HasSubstr;

// Images of 4 x 4 pixels: the upper half in one of three colours, the lower half in another.
constexpr std::array<const char*, 3> kColours = {"red", "green", "blue"};

data::Image two_colours(size_t upper, size_t lower) {
  data::Image image = {{4, 4, 3}, std::vector<uint8_t>(48, 20)};
  for (size_t i = 0; i < 16; ++i) image.values[3 * i + (i < 8 ? upper : lower)] = 230;
  return image;
}

// A training of a tiny model on the six images of two colours, with two captions each.
struct TestRun : tasks::TestRunOf<CaptionTask, Options, CaptionConfig> {
  TestRun() {
    std::string captions, text;
    std::filesystem::create_directories(folder / "images");
    int image = 0;
    for (size_t upper = 0; upper < 3; ++upper) {
      for (size_t lower = 0; lower < 3; ++lower) {
        if (upper == lower) continue;
        write_file(std::filesystem::path(folder / "images") / cat(image, ".png"),
                   data::encode_png(two_colours(upper, lower)));
        for (const std::string& caption :
             {cat(kColours[upper], " over ", kColours[lower]), cat(kColours[lower], " is under ", kColours[upper])}) {
          captions += cat(image, "\t", caption, "\n");
          text += cat(caption, "\n");
        }
        ++image;
      }
    }
    write_file(folder / "captions.tsv", captions);
    write_file(folder / "captions.txt", text);
    text::train_vocab(
        {.inputs = {folder / "captions.txt"}, .output = folder / "words.spm", .size = 100, .type = "word"});
    data.features = {folder / "images"};
    data.captions = {folder / "captions.tsv"};
    data.vocabs = {folder / "words.spm"};
    data.mini_batch = 2;
    data.label_smoothing = 0;
    model.patch_size = 2;
    model.enc_depth = model.dec_depth = 1;
  }
  void with_validation() {
    data.valid_captions = data.captions;
    data.valid_max_length = 8;
    train.valid_freq = 4;
  }
};

std::vector<train::Variant<TestRun>> variants() {
  return {{"plain", [](TestRun&) {}},
          {"one batch", [](TestRun& run) { run.data.mini_batch = 0; }},
          {"optimizer-delay, checkpointing",
           [](TestRun& run) {
             run.train.optimizer_delay = 2;
             run.train.gradient_checkpointing = true;
           }},
          {"bfloat16", [](TestRun& run) { run.train.precision = "bfloat16"; }},
          {"validation", [](TestRun& run) { run.with_validation(); }},
          {"topk in training", [](TestRun& run) {
             run.model.attention = "topk(2)";
             run.model.sparsify = "train";
             run.model.tied_embeddings = true;
           }}};
}

// Stopped in the middle of an epoch and in a later one.
TEST(CaptionTraining, ResumedIsBitForBitTheRunThatNeverStopped) { train::expect_exact_resume(variants(), {2, 5, 8}); }

// With all captions of an image in one batch, which share its row of the encoder's output.
TEST(CaptionTraining, GradientCheckpointingChangesNoBit) {
  for (const char* attention : {"full", "topk(2)"}) {
    for (const char* precision : {"float32", "bfloat16"}) {
      TestRun test;
      test.train.after_batches = 5;
      test.train.precision = precision;
      test.model.attention = attention;
      test.model.enc_depth = test.model.dec_depth = 2;
      test.model.transformer_dropout_attention = test.model.transformer_dropout_ffn = 0.2;
      train::expect_exact_checkpointing(test);
    }
  }
}

std::vector<std::string> captions_of(const TestRun& test, const std::function<void(CaptionCommand&)>& change = {}) {
  CaptionCommand command;
  command.model = test.train.model;
  command.features = test.data.features;
  command.output = test.folder / "captions";
  command.cpu_threads = 1;
  if (change) change(command);
  run_caption(command);
  return read_lines(test.folder / "captions");
}

// Both captions of an image are as likely, so either is right.
TEST(CaptionTraining, LearnsWhichColourIsWhere) {
  TestRun test;
  test.model.transformer_dropout = 0;
  test.train.after_batches = 250;
  run(test);
  const std::vector<data::Caption> gold = data::read_captions(test.data.captions, "--captions", {});
  for (const int64_t mini_batch : {1, 4}) {
    const std::vector<std::string> written = captions_of(test, [&](CaptionCommand& c) { c.mini_batch = mini_batch; });
    ASSERT_EQ(written.size(), 6U);
    for (size_t i = 0; i < written.size(); ++i)
      EXPECT_TRUE(written[i] == gold[2 * i].text || written[i] == gold[2 * i + 1].text) << i << ": " << written[i];
  }
  const std::vector<std::string> all = captions_of(test, [](CaptionCommand& c) {
    c.n_best = true;
    c.beam_size = 3;
  });
  ASSERT_EQ(all.size(), 18U);
  EXPECT_THAT(all[4], testing::MatchesRegex("1 \\|\\|\\| .* \\|\\|\\| F0= -[0-9.]+ \\|\\|\\| -[0-9.]+"));
}

// A batch encodes each image once; the sums over its captions are those of batches with one image and caption each.
TEST(CaptionTraining, ABatchIsTheSumOfItsCaptions) {
  TestRun test;
  test.data.mini_batch = 0;
  test.model.transformer_dropout = 0;
  const std::unique_ptr<CaptionTask> together = test.task();
  EXPECT_EQ(together->begin_epoch(1), std::vector<int64_t>{12}) << "captions";
  const train::BatchLoss whole = together->loss(0, {});
  whole.loss.backward();
  std::vector<std::string> lines = read_lines(test.folder / "captions.tsv");
  double sum = 0, weight = 0;
  at::Tensor gradient;
  for (const std::string& line : lines) {
    write_file(test.folder / "one.tsv", line + "\n");
    test.data.captions = {test.folder / "one.tsv"};
    const std::unique_ptr<CaptionTask> alone = test.task();
    alone->begin_epoch(1);
    const train::BatchLoss one = alone->loss(0, {});
    one.loss.backward();
    sum += one.loss.item<double>();
    weight += one.weight;
    const at::Tensor grad = alone->module().named_parameters()["encoder.features.weight"].grad();
    gradient = gradient.defined() ? gradient + grad : grad.clone();
  }
  EXPECT_NEAR(whole.loss.item<double>(), sum, 1e-5 * sum) << "float32 sums in another order";
  EXPECT_EQ(whole.weight, weight);
  const at::Tensor grad = together->module().named_parameters()["encoder.features.weight"].grad();
  EXPECT_TRUE(at::allclose(grad, gradient, 1e-4, 1e-5));
}

// --sparsify train: topk(2) in training, and outside of it what `full` computes with the same weights.
TEST(CaptionTraining, SelectsInTrainingAlone) {
  const auto loss = [](const std::string& attention, const std::string& sparsify, bool training) {
    TestRun test;
    test.model.attention = attention;
    test.model.sparsify = sparsify;
    test.model.transformer_dropout = 0;
    const std::unique_ptr<CaptionTask> task = test.task();
    task->begin_epoch(1);
    return task->loss(0, {.training = training}).loss.item<double>();
  };
  for (const bool training : {false, true}) {
    const double full = loss("full", "both", training), both = loss("topk(2)", "both", training);
    EXPECT_NE(full, both);
    EXPECT_EQ(loss("topk(2)", "train", training), training ? both : full);
  }
}

TEST(CaptionTraining, MeasuresValidation) {
  TestRun test;
  test.with_validation();
  test.model.transformer_dropout = 0;
  test.data.valid_mini_batch = 4;
  test.data.mini_batch = 0;
  const std::unique_ptr<CaptionTask> task = test.task();
  const std::vector<double> values = task->validate({"cider", "ce-mean-words", "coco-bleu", "perplexity", "accuracy"});
  task->begin_epoch(1);
  const train::BatchLoss loss = task->loss(0, {});
  EXPECT_NEAR(values[1], loss.loss.item<double>() / loss.weight, 1e-5);
  EXPECT_NEAR(values[3], std::exp(values[1]), 1e-9);
  for (const double value : values) EXPECT_GE(value, 0);
  const std::string usual = task->parts().valid_fingerprint;
  EXPECT_NE(usual, "");
  test.data.valid_mini_batch = 2;
  EXPECT_EQ(test.task()->parts().valid_fingerprint, usual);
  test.data.valid_beam_size = 2;
  EXPECT_NE(test.task()->parts().valid_fingerprint, usual);
}

TEST(CaptionInputs, WarnOfNumbersThatAreSortedAsTexts) {
  const data::Image image = {{2, 2, 1}, std::vector<uint8_t>(4)};
  const TestFolder folder;
  for (const char* name : {"2.png", "10.png"}) write_file(folder / name, data::encode_png(image));
  testing::internal::CaptureStderr();
  const Inputs inputs({.features = {folder / ""}}, 2);
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      testing::HasSubstr("image '10' comes before '2', because names are sorted as texts, and ids and captions"));
}

// Patches row by row, each with its rows of pixels.
TEST(CaptionInputs, PatchesOfAnImage) {
  const TestFolder folder;
  data::Image image = {{4, 6, 1}, std::vector<uint8_t>(24)};
  std::iota(image.values.begin(), image.values.end(), uint8_t{0});
  write_file(folder / "a.png", data::encode_png(image));
  const Inputs inputs({.features = {folder / "a.png"}}, 2);
  EXPECT_EQ(inputs.width(), 4);
  EXPECT_EQ(inputs.length(0), 6);
  std::vector<float> values;
  inputs.append(0, values);
  const std::vector<int> expected = {0,  1,  6,  7,  2,  3,  8,  9,  4,  5,  10, 11,
                                     12, 13, 18, 19, 14, 15, 20, 21, 16, 17, 22, 23};
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i] / 127.5 - 1, 1e-6) << i;
  EXPECT_THAT(message_of([&] { Inputs({.features = {folder / "a.png"}}, 4); }),
              HasSubstr("--features: images of 4x6x1 (height x width x channels) cannot be cut into patches of 4x4"));
}

void write_tensors(const std::string& path, const nn::NamedTensors& tensors) {
  write_file(path, nn::print_safetensors(tensors));
}

TEST(CaptionInputs, FeaturesById) {
  const TestFolder folder;
  write_tensors(folder / "f.safetensors", {{"12", at::full({2, 3}, 1.0F)}, {"7", at::full({1, 3}, 2.0F)}});
  const Inputs all({.features = {folder / "f.safetensors"}}, 8);
  EXPECT_EQ(all.size(), 2);
  EXPECT_EQ(all.length(*all.find("12")), 2);
  EXPECT_EQ(all.length(*all.find("7")), 1);
  EXPECT_FALSE(all.find("0"));
  write_file(folder / "ids", "7\n");
  const Inputs chosen({.features = {folder / "f.safetensors"}, .ids = folder / "ids"}, 8);
  std::vector<float> values;
  chosen.append(0, values);
  EXPECT_THAT(values, testing::ElementsAre(2, 2, 2));
  EXPECT_EQ(chosen.size(), 1);
  const auto refusal = [&](const nn::NamedTensors& tensors, const std::string& ids) {
    write_tensors(folder / "f.safetensors", tensors);
    write_file(folder / "ids", ids);
    return message_of([&] {
      const Inputs inputs({.features = {folder / "f.safetensors"}, .ids = ids.empty() ? "" : folder / "ids"}, 8);
      std::vector<float> read;
      inputs.append(0, read);
    });
  };
  EXPECT_EQ(refusal({{"7", at::ones({1, 3})}}, "7\n8\n"), "--image-ids: --features has no tensor '8'");
  EXPECT_EQ(refusal({{"7", at::ones({1, 3})}}, "7\n7\n"),
            "--image-ids: the id '7' comes twice; expected one image for each id");
  EXPECT_THAT(refusal({{"7", at::ones({3})}}, ""), HasSubstr("the tensor '7' has the type F32 and 1 dimensions"));
  EXPECT_THAT(refusal({{"7", at::ones({1, 3}, at::kDouble)}}, ""), HasSubstr("the tensor '7' has the type F64"));
  EXPECT_EQ(refusal({{"7", at::full({1, 3}, NAN)}}, ""),
            "the features of the image '7' are not all finite; expected numbers without NaN");
}

// Images with different numbers of regions train together.
TEST(CaptionTraining, LearnsFromFeatures) {
  TestRun test;
  nn::NamedTensors tensors;
  for (int i = 0; i < 6; ++i) {
    at::Tensor regions = at::zeros({1 + i % 3, 6});
    regions[0][i] = 2;
    tensors.emplace(std::to_string(i), regions);
  }
  write_tensors(test.folder / "f.safetensors", tensors);
  test.data.features = {test.folder / "f.safetensors"};
  test.model.transformer_dropout = 0;
  test.train.after_batches = 200;
  run(test);
  write_file(test.folder / "ids", "4\n0\n");
  const std::vector<std::string> written =
      captions_of(test, [&](CaptionCommand& c) { c.image_ids = test.folder / "ids"; });
  ASSERT_EQ(written.size(), 2U);
  EXPECT_THAT(written[0], testing::AnyOf("blue over red", "red is under blue"));
  EXPECT_THAT(written[1], testing::AnyOf("red over green", "green is under red"));
  CaptionCommand images;
  images.model = test.train.model;
  images.features = {test.folder / "images"};
  EXPECT_EQ(message_of([&] { run_caption(images); }),
            "--features: got images of 4x4x3 (height x width x channels), but the model reads features of width 6");
}

std::string refusal(const TestRun& test) {
  return message_of([&] { test.task(); });
}

TEST(CaptionTraining, SaysWhatIsWrongWithCaptions) {
  TestRun test;
  write_file(test.folder / "captions.tsv", "0\tred over blue\n9\tred over blue\nx\tred\n");
  EXPECT_EQ(refusal(test),
            "--captions: 2 captions of images that are not there, first '9'; the images are '0' to '5'; expected an "
            "image for each caption (--image-ids)");
  write_file(test.folder / "captions.tsv", "0\t \n");
  EXPECT_EQ(refusal(test), "--captions: has no usable caption; all are empty");
  write_file(test.folder / "captions.tsv", "0\tred over blue\n");
  test.data.max_length = 2;
  EXPECT_EQ(refusal(test), "--captions: has no usable caption: all are longer than 2 tokens (--max-length)");
  test.data.max_length = 10;
  test.model.transformer_positions = "learned";
  test.model.max_positions = 3;
  EXPECT_THAT(refusal(test), HasSubstr("--captions: the longest caption has 4 tokens with </s>; --max-positions is 3"));
  test.model.max_positions = 4;
  EXPECT_EQ(refusal(test), "nothing was thrown");
  write_file(test.folder / "ids", "a\nb\n");
  test.data.image_ids = test.folder / "ids";
  EXPECT_THAT(refusal(test), HasSubstr("ids' has 2 ids, but there are 6 images; expected one id for each"));
}

TEST(CaptionTraining, SaysWhatIsWrongWithTheModel) {
  TestRun test;
  test.model.image_shape = {8, 4, 3};
  EXPECT_EQ(refusal(test),
            "--features: got images of 4x4x3 (height x width x channels), but the model reads images of 8x4x3 (height "
            "x width x channels)");
  test.model.image_shape = {0, 0, 0};
  test.model.dim_features = 7;
  EXPECT_EQ(refusal(test),
            "--features: got images of 4x4x3 (height x width x channels), but the model reads features of width 7");
  test.model.dim_features = 0;
  test.model.dim_vocabs = {3};
  EXPECT_THAT(refusal(test), HasSubstr("--dim-vocabs: got 3, but the vocabulary of --vocabs has "));
  const auto problem = [](const std::function<void(CaptionConfig&)>& change) {
    CaptionConfig config;
    change(config);
    return message_of([&] { validate(config); });
  };
  EXPECT_EQ(problem([](CaptionConfig&) {}), "nothing was thrown");
  EXPECT_EQ(problem([](CaptionConfig& c) {
              c.image_shape = {32, 30, 3};
            }),
            "--patch-size 8 does not divide --image-shape");
  EXPECT_THAT(problem([](CaptionConfig& c) { c.transformer_positions = "image"; }),
              HasSubstr("--transformer-positions image is for models that write images"));
  EXPECT_THAT(problem([](CaptionConfig& c) { c.image_shape = {32, 32}; }), HasSubstr("--image-shape: expected height"));
  EXPECT_THAT(problem([](CaptionConfig& c) {
                c.image_shape = {32, 32, 3};
                c.dim_features = 4;
              }),
              HasSubstr("--dim-features is for features and --image-shape for images"));
}

}  // namespace
}  // namespace fovea::captions::training_test
