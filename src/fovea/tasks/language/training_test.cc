#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "fovea/base/test_message.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/ops/step.h"
#include "fovea/tasks/language/score.h"
#include "fovea/tasks/language/test_run.h"

namespace fovea::language::training_test {
namespace {
namespace fs = std::filesystem;

std::vector<train::Variant<TestRun>> variants() {
  return {{"bytes", [](TestRun&) {}},
          {"pieces", [](TestRun& run) { run.with_pieces(); }},
          {"shuffled", [](TestRun& run) { run.data.order = "shuffled"; }},
          {"pieces, shuffled, documents",
           [](TestRun& run) {
             run.with_pieces();
             run.data.order = "shuffled";
             run.model.documents = "blank";
           }},
          {"documents", [](TestRun& run) { run.model.documents = "blank"; }},
          {"files",
           [](TestRun& run) {
             run.model.documents = "file";
             run.data.train_sets.push_back(run.folder / "valid");
           }},
          {"optimizer-delay", [](TestRun& run) { run.train.optimizer_delay = 2; }},
          {"bfloat16", [](TestRun& run) { run.train.precision = "bfloat16"; }},
          {"validation", [](TestRun& run) { run.with_validation(); }},
          {"average", [](TestRun& run) { run.train.exponential_smoothing = 0.1; }},
          {"checkpointing", [](TestRun& run) { run.train.gradient_checkpointing = true; }},
          {"memory", [](TestRun& run) { run.model.memory_length = 11; }},
          {"memory, documents, delay, bfloat16",
           [](TestRun& run) {
             run.model.memory_length = 40;
             run.model.same_length = true;
             run.model.documents = "blank";
             run.model.transformer_positions = "rotary";
             run.train.optimizer_delay = 2;
             run.train.precision = "bfloat16";
             run.with_validation();
           }},
          {"span", [](TestRun& run) { run.model.attention = "1*span(9,3);1*span(20,4)+topk(3)"; }},
          {"span, cold cache, average, bfloat16, delay",
           [](TestRun& run) {
             run.model.attention = "span(30,4)";
             run.model.span_cold_cache = "zeros";
             run.model.span_start = 0.2;
             run.train.exponential_smoothing = 0.1;
             run.train.precision = "bfloat16";
             run.train.optimizer_delay = 2;
             run.with_validation();
           }},
          {"routed", [](TestRun& run) { run.model.attention = "1*routed(3,6);1*routed(2,4,causal)+topk(3)"; }},
          {"routed, faithful, average, bfloat16, delay",
           [](TestRun& run) {
             run.model.attention = "routed(3,6)+topk(3)";
             run.model.routing_start = "faithful";
             run.train.exponential_smoothing = 0.1;
             run.train.precision = "bfloat16";
             run.train.optimizer_delay = 2;
           }},
          {"routed, memory",
           [](TestRun& run) {
             run.model.attention = "1*local(6);1*routed(2,4,causal)+topk(3)";
             run.model.memory_length = 11;
           }},
          {"routed, memory, documents, delay, bfloat16, checkpointing",
           [](TestRun& run) {
             run.model.attention = "routed(3,6,causal)";
             run.model.memory_length = 40;
             run.model.documents = "blank";
             run.model.transformer_positions = "shaw(9)";
             run.train.optimizer_delay = 2;
             run.train.precision = "bfloat16";
             run.train.gradient_checkpointing = true;
             run.with_validation();
           }},
          {"dropouts, random keys", [](TestRun& run) {
             run.model.transformer_dropout_attention = run.model.transformer_dropout_ffn = 0.2;
             run.model.attention = "random(3)";
           }}};
}

TEST(LanguageTraining, SameSeedSameFiles) {
  for (const int64_t seed : {1, 2}) {
    TestRun first, second;
    first.train.seed = seed;
    first.train.after_batches = second.train.after_batches = 6;
    run(first), run(second);
    EXPECT_EQ(bytes_of(first.train.model) == bytes_of(second.train.model), seed == 1);
  }
}

// Stopped in the middle of the first epoch and again in that of the second.
TEST(LanguageTraining, ResumedIsBitForBitTheRunThatNeverStopped) {
  train::expect_exact_resume(variants(), {4, 17, 23}, [](const std::string& bytes) {
    EXPECT_THAT(bytes, testing::HasSubstr("epoch: ")) << "an epoch has more batches than this run";
    EXPECT_THAT(bytes, testing::Not(testing::HasSubstr("epoch: 1\n"))) << "an epoch has more batches than this run";
  });
}

TEST(LanguageTraining, GradientCheckpointingChangesNoBit) {
  for (const char* precision : {"float32", "bfloat16"}) {
    for (const char* attention : {"full", "random(3)", "topk(4)", "1*routed(3,6);1*routed(2,4,causal)"}) {
      TestRun test;
      test.train.precision = precision;
      test.train.after_batches = 8;
      test.model.attention = attention;
      test.model.transformer_dropout_attention = test.model.transformer_dropout_ffn = 0.2;
      train::expect_exact_checkpointing(test);
    }
  }
}

// One update of two passes moves the centroids once, by the tokens of both.
TEST(LanguageTraining, PassesOfAnUpdateMoveCentroidsOnce) {
  const auto after_one_update = [](int64_t delay, int64_t streams) {
    TestRun test;
    test.model.attention = "routed(3,6)";
    test.model.transformer_dropout = 0;
    test.train.optimizer_delay = delay;
    test.data.mini_batch = streams;
    test.train.after_batches = 1;
    run(test);
    return nn::load_checkpoint(test.train.model, nn::Load::kModel).model;
  };
  const nn::NamedTensors one = after_one_update(1, 4), two = after_one_update(2, 2);
  const std::string place = "layers.0.self_attention.routing.";
  const at::Tensor counts = one.at(place + "counts");
  // The first layer's tokens are those of the same embeddings: the same counts, and sums in another order.
  EXPECT_TRUE(counts.equal(two.at(place + "counts")));
  EXPECT_TRUE(one.at(place + "centroids").allclose(two.at(place + "centroids"), 1e-5, 1e-6));
  EXPECT_NEAR(counts[0].sum().item<double>(), 0.999 * 3 + 0.001 * 64, 1e-5);
}

// After the first letters of a line, all other letters are certain.
TEST(LanguageTraining, LearnsAPattern) {
  for (const char* order : {"stream", "shuffled"}) {
    TestRun test;
    std::string text;
    for (int i = 0; i < 60; ++i) text += "the quick brown fox\n";
    write_file(test.folder / "train", text);
    write_file(test.folder / "valid", text.substr(0, 200));
    test.data.order = order;
    test.data.mini_batch = 8;
    test.model.transformer_dropout = 0;
    test.model.segment_length = 40;
    test.train.after_batches = 100;
    EXPECT_LT(run(test), 0.15) << "nats a byte; its entropy is 0, that of its letters 2.7";
    ScoreOptions options;
    options.model = test.train.model;
    options.train_sets = {test.folder / "valid"};
    options.output = test.folder / "scores";
    EXPECT_EQ(run_score(options), 200);
    const std::string scores = read_file(test.folder / "scores");
    ASSERT_TRUE(scores.starts_with("bits-per-byte ")) << scores;
    EXPECT_LT(std::stod(scores.substr(14)), 0.3);
  }
}

TEST(LanguageTraining, ATextShorterThanASegmentIsOneSegment) {
  TestRun test;
  write_file(test.folder / "train", "ab");
  test.train.after_batches = 3;
  EXPECT_GT(run(test), 0);
  EXPECT_EQ(test.task()->begin_epoch(1), std::vector<int64_t>{2}) << "streams of one byte each";
}

// Segments of one unit: each unit sees the one before it and nothing else, so the loss of an epoch is a sum over the
// pairs of the text, each once, whatever the order.
TEST(LanguageTraining, AnEpochHasEachUnitOnce) {
  TestRun test;
  test.model.segment_length = 1;
  test.data.mini_batch = 7;
  test.model.documents = "blank";
  for (const char* order : {"stream", "shuffled"}) {
    test.data.order = order;
    const std::unique_ptr<LanguageTask> task = test.task();
    auto& model = dynamic_cast<nn::ModelImpl&>(task->module());
    model.eval();
    const std::string text = read_file(test.folder / "train");
    std::vector<int64_t> inputs = {256}, outputs;  // a document ends behind its empty line
    for (size_t i = 0; i < text.size(); ++i) {
      outputs.push_back(static_cast<unsigned char>(text[i]));
      const bool ends =
          text[i] == '\n' && (i == 0 || text[i - 1] == '\n') && i + 1 < text.size() && text[i + 1] != '\n';
      if (ends) outputs.push_back(256);
    }
    inputs.insert(inputs.end(), outputs.begin(), outputs.end() - 1);
    std::vector<int64_t> offsets(outputs.size() + 1);
    std::iota(offsets.begin(), offsets.end(), 0);
    const auto size = static_cast<int64_t>(outputs.size());
    const at::Tensor hidden =
        model.decode({nn::index_tensor(std::move(inputs)), nn::index_tensor(std::move(offsets))}, {});
    const auto expected =
        ops::token_scores(hidden, model.output_layer(), nn::index_tensor(std::move(outputs))).nll.sum().item<double>();
    double loss = 0, units = 0;
    int64_t items = 0;
    const std::vector<int64_t> batches = task->begin_epoch(2);
    for (size_t batch = 0; batch < batches.size(); ++batch) {
      const train::BatchLoss part = task->loss(static_cast<int64_t>(batch), {});
      loss += part.loss.item<double>(), units += part.weight, items += batches[batch];
    }
    EXPECT_EQ(units, size) << order;
    EXPECT_EQ(items, size) << order;
    EXPECT_NEAR(loss, expected, 1e-5 * expected) << order;
  }
}

TEST(LanguageTraining, AnEpochOfLongSegmentsHasAllUnits) {
  for (const train::Variant<TestRun>& variant : variants()) {
    TestRun test;
    variant.change(test);
    const text::Units units = text::Units::load(test.data.vocabs);
    std::vector<int32_t> ids;
    for (const std::string& file : test.data.train_sets) units.encode(read_file(file), ids);
    const std::unique_ptr<LanguageTask> task = test.task();
    double weight = 0;
    const size_t batches = task->begin_epoch(1).size();
    for (size_t batch = 0; batch < batches; ++batch) weight += task->loss(static_cast<int64_t>(batch), {}).weight;
    const bool has_ends = units.is_bytes() && test.model.documents != "no";  // </s> behind all documents but the last
    if (has_ends) {
      EXPECT_GT(weight, std::ssize(ids)) << variant.name;
    } else {
      EXPECT_EQ(weight, std::ssize(ids)) << variant.name;
    }
  }
}

TEST(LanguageTraining, ASchemeThatDoesNotExistIsAProblemOfItsOption) {
  LanguageConfig config;
  config.transformer_positions = "polar";
  EXPECT_THAT(message_of([&] { validate(config); }), testing::StartsWith("--transformer-positions: got 'polar'"));
  config.transformer_positions = "learned";
  config.max_positions = config.segment_length - 1;
  EXPECT_THAT(message_of([&] { validate(config); }), testing::StartsWith("--segment-length 512 needs"));
}

// The checkpoint names the bias that the length of segments gave a sigmoid.
TEST(LanguageTraining, TheConfigurationKeepsTheBiasOfASigmoid) {
  const auto attention = [](int64_t memory, bool same_length) {
    TestRun run;
    run.model.attention = "sigmoid+rmsnorm";
    run.model.transformer_positions = "rotary";
    run.model.memory_length = memory, run.model.same_length = same_length;
    const LanguageTask task(run.train, run.data, run.model, 1);
    return nn::config_of<LanguageConfig>(task.parts().identity, "test").attention;
  };
  const auto bias = [](double length) { return cat("sigmoid(", shortest(-std::log(length)), ")+rmsnorm"); };
  EXPECT_EQ(attention(0, false), bias(16));
  EXPECT_EQ(attention(10, false), bias(26));
  EXPECT_EQ(attention(10, true), bias(11));
}

}  // namespace
}  // namespace fovea::language::training_test
