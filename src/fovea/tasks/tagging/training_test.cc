#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "fovea/base/test_message.h"
#include "fovea/models/tagging/loaded_tagger.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/tasks/tagging/score.h"
#include "fovea/tasks/tagging/tag.h"
#include "fovea/tasks/tagging/test_run.h"

namespace fovea::tagging::training_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<train::Variant<TestRun>> variants() {
  return {{"plain", [](TestRun&) {}},
          {"validation", [](TestRun& run) { run.with_validation(); }},
          {"bfloat16, delay",
           [](TestRun& run) {
             run.train.precision = "bfloat16";
             run.train.optimizer_delay = 2;
           }},
          {"BERT's form, patterns, checkpointing", [](TestRun& run) {
             run.model.embedding_norm = true;
             run.model.token_types = 2;
             run.model.transformer_positions = "learned";
             run.model.max_positions = 6;
             run.model.norm_epsilon = 1e-12;
             run.model.attention = "1*topk(2);1*window(3)";
             run.train.gradient_checkpointing = true;
           }}};
}

TEST(TaggingTraining, ResumedIsBitForBitTheRunThatNeverStopped) { train::expect_exact_resume(variants(), {2, 9, 10}); }

TEST(TaggingTraining, LearnsTheNames) {
  TestRun test;
  test.with_validation();
  test.train.valid_freq = 1000;
  test.model.transformer_dropout = 0;
  test.train.after_batches = 400;
  EXPECT_LT(run(test), 0.1) << "nats per word; 1.6 if all labels are as likely";
  ScoreOptions score;
  score.model = test.train.model;
  score.train_sets = {test.folder / "valid"};
  score.output = test.folder / "report";
  EXPECT_GT(run_score(score), 20);
  const std::string report = read_file(score.output);
  EXPECT_THAT(report, HasSubstr("FB1: 100.00"));
  EXPECT_THAT(report, HasSubstr("\nF1 100.00\n")) << report;
  EXPECT_THAT(report, testing::Not(HasSubstr("F1-names")));
}

// The output of `fovea tag` for an input.
std::string tagged(const TestRun& test, const std::string& input, const std::string& format = "columns",
                   int64_t window = 10000) {
  write_file(test.folder / "in", input);
  TagOptions options;
  options.model = test.train.model;
  options.input = test.folder / "in";
  options.output = test.folder / "out";
  options.input_format = format;
  options.window = window;
  run_tag(options);
  return read_file(options.output);
}

TEST(Tag, GivesColumnsBackWithOneMore) {
  TestRun test;
  test.model.transformer_dropout = 0;
  test.train.after_batches = 400;
  run(test);
  const std::string input = "-DOCSTART- -X-\n\nama W\nto\tT\nAmax N  \nZed N\n\n\ncoco W\n";
  const std::string expected = "-DOCSTART- -X- O\n\nama W O\nto\tT\tO\nAmax N I-PER\nZed N I-PER\n\n\ncoco W O\n";
  EXPECT_EQ(tagged(test, input), expected) << "in the dialect of the training data";
  EXPECT_EQ(tagged(test, input, "columns", 1), expected) << "sentences may be read line by line";
  EXPECT_EQ(tagged(test, "ama to Amax, coco.\n\ndada\n", "text"),
            tagged(test, "ama\nto\nAmax\n,\ncoco\n.\n\n\ndada\n\n"));
  EXPECT_EQ(tagged(test, ""), "");
  EXPECT_THAT(message_of([&] { tagged(test, "ama\n\xff\n"); }), HasSubstr("line 2: is not UTF-8"));
}

TEST(TaggingTraining, LongSentencesAreReadInParts) {
  TestRun test;
  test.model.transformer_positions = "learned";
  test.model.max_positions = 3;  // two pieces and </s>
  const std::unique_ptr<TaggingTask> task = test.task();
  int64_t parts = 0;
  for (const int64_t items : task->begin_epoch(1)) parts += items;
  EXPECT_GT(parts, 30);
  test.model.max_positions = 2;
  EXPECT_THAT(message_of([&] { validate(test.model); }), HasSubstr("--max-positions: expected at least 3"));
}

TEST(TaggingTraining, SentencesDoNotDependOnEachOther) {
  TestRun test;
  test.train.after_batches = 3;
  run(test);
  TrainedModelOptions options;
  options.model = test.train.model;
  const LoadedTagger loaded = load_tagger(options);
  const std::vector<std::vector<std::string>> all = {{"ama", "to", "Amax"}, {"Cocoy"}, {"efe", "efe", "efe", "zzz"}};
  const std::vector<Labels> together = tag_sentences(loaded.parts(4096), all);
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(tag_sentences(loaded.parts(1), std::span(all).subspan(i, 1)).front(), together[i]);
}

// The values of a new task's parameters once it has begun with pretrained weights.
nn::NamedTensors started(TestRun& test) {
  test.train.after_batches = 1;
  test.train.learn_rate = 1e-30;  // the weights stay as they are
  test.train.model = test.folder / "again";
  run(test);
  return nn::load_checkpoint(test.train.model, nn::Load::kModel).model;
}

TEST(TaggingTraining, StartsFromATaggerWithOtherLabels) {
  TestRun test;
  test.train.after_batches = 3;
  run(test);
  const nn::NamedTensors before = nn::load_checkpoint(test.train.model, nn::Load::kModel).model;
  test.train.pretrained_model = test.train.model;
  test.model = {};  // the shape is the pretrained model's
  test.data.vocabs = "";
  test.data.label_column = {2};
  testing::internal::CaptureStderr();
  const nn::NamedTensors after = started(test);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("has other labels; the output layer starts with new weights"));
  EXPECT_EQ(after.at("output.weight").size(0), 3) << "W, N and T";
  EXPECT_TRUE(after.at("encoder.embeddings.weight").equal(before.at("encoder.embeddings.weight")));
  EXPECT_TRUE(
      after.at("encoder.layers.1.feed_forward.in.weight").equal(before.at("encoder.layers.1.feed_forward.in.weight")));
}

TEST(TaggingTraining, StartsFromATaggerWithTheSameLabelsAndOtherMechanisms) {
  TestRun test;
  test.train.after_batches = 3;
  run(test);
  const nn::NamedTensors before = nn::load_checkpoint(test.train.model, nn::Load::kModel).model;
  test.train.pretrained_model = test.train.model;
  test.model.attention = "rela-g";
  testing::internal::CaptureStderr();
  const nn::NamedTensors after = started(test);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("lacks start with new weights: encoder.layers.0.self_attention.head_norm"));
  EXPECT_TRUE(after.at("output.weight").equal(before.at("output.weight")));
  EXPECT_TRUE(after.contains("encoder.layers.0.self_attention.head_norm.gain"));
}

std::string refusal(const TestRun& test) {
  return message_of([&] { test.task(); });
}

TEST(TaggingTraining, SaysWhatIsWrong) {
  TestRun test;
  test.data.vocabs = "";
  EXPECT_THAT(refusal(test), HasSubstr("--vocabs is missing"));
  test.data.vocabs = test.folder / "v.spm";
  test.model.dim_vocabs = {5};
  EXPECT_EQ(refusal(test),
            "--dim-vocabs: got 5, but the vocabulary has 14 pieces; leave the option out, its size is the "
            "vocabulary's");
  test.model.dim_vocabs = {0};
  test.train.after_batches = 1;
  run(test);
  TestRun next;
  next.train.pretrained_model = test.train.model;
  next.model.dim_emb = 32;
  EXPECT_EQ(refusal(next), "--dim-emb: got 32, but --pretrained-model has 16; leave the option out");
  next.model.dim_emb = 16;
  write_file(next.folder / "words", "x y z\n");
  text::train_vocab({.inputs = {next.folder / "words"}, .output = next.folder / "v.spm", .type = "char"});
  EXPECT_THAT(refusal(next), HasSubstr("is not the vocabulary of"));
}

TEST(TaggingTraining, WarnsOfLabelsThatTheTrainingDataLack) {
  TestRun test;
  write_file(test.folder / "valid", "ama W O\nZed N I-ORG\n");
  test.with_validation();
  testing::internal::CaptureStderr();
  test.task();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("--valid-sets: the training data do not have the labels I-ORG; the model cannot predict them"));
}

TEST(TaggingTraining, SaysWhatIsWrongWithOptions) {
  Options options;
  options.label_column = {1};
  Problems problems;
  add_problems(options, problems);
  const std::string text = message_of([&] { problems.throw_if_any(); });
  EXPECT_THAT(text, HasSubstr("--train-sets is missing; expected one or more files of columns"));
  EXPECT_THAT(text, HasSubstr("--label-column: expected numbers from 2; the first column is the word"));
}

}  // namespace
}  // namespace fovea::tagging::training_test
