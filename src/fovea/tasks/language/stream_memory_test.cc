#include "fovea/tasks/language/stream_memory.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "fovea/base/test_message.h"
#include "fovea/models/test_models.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/nn/model.h"
#include "fovea/ops/step.h"
#include "fovea/tasks/language/score.h"
#include "fovea/tasks/language/score_text.h"
#include "fovea/tasks/language/test_run.h"

namespace fovea::language::stream_memory_test {
namespace {

using models::test_model;

constexpr int64_t kEos = 16;

data::TokenText some_text(int64_t size, const std::vector<int64_t>& documents) {
  data::TokenText text;
  Rng rng(5);
  for (int64_t i = 0; i < size; ++i) text.ids.push_back(static_cast<int32_t>(rng.below(kEos)));
  text.documents = documents;
  text.bytes = size;
  return text;
}

std::vector<double> log_probs(const nn::Model& model, const ScoringOptions& options, const data::TokenText& text) {
  std::vector<double> all;
  ScoreText(model, options).run(text, kEos, [&](double log_prob) { all.push_back(log_prob); });
  return all;
}

// -log p of each unit of a text as training with memory reads it, by place in the text.
std::vector<double> in_training_order(nn::Model model, const data::TokenText& text, const data::SegmentOptions& options,
                                      int64_t limit) {
  const torch::NoGradGuard guard;
  data::SegmentBatches batches(text, kEos, options, 1);
  StreamMemory memory(limit, options.shards);
  std::vector<std::vector<double>> streams(static_cast<size_t>(options.shards * options.mini_batch));
  for (int64_t batch = 0; batch < batches.size(); ++batch) {
    const data::Segments segments = batches.at(batch);
    const int64_t shard = batches.shard(batch);
    const auto pass = memory.begin(shard, segments);
    const at::Tensor hidden = model->decode(
        {.tokens = nn::index_tensor(segments.inputs), .offsets = nn::index_tensor(segments.offsets), .memory = pass},
        {});
    memory.end(shard, segments, *pass);
    const ops::TokenScores scores =
        ops::token_scores(hidden, model->output_layer(), nn::index_tensor(segments.outputs));
    for (size_t i = 0; i < segments.streams.size(); ++i) {
      auto& stream = streams[static_cast<size_t>(shard * options.mini_batch + segments.streams[i])];
      for (int64_t t = segments.offsets[i]; t < segments.offsets[i + 1]; ++t)
        stream.push_back(scores.nll[t].item<double>());
    }
    if ((batch + 1) % options.shards == 0) memory.after_update(true);
  }
  std::vector<double> all;
  for (const auto& stream : streams) all.insert(all.end(), stream.begin(), stream.end());
  return all;
}

// One stream of training is a text; scoring reads it in the same segments.
TEST(StreamMemory, ScoringReadsWhatTrainingReads) {
  const nn::Model model = test_model("full", "rotary");
  for (const std::vector<int64_t>& documents : {std::vector<int64_t>{0}, {0, 16, 40}}) {
    const data::TokenText text = some_text(61, documents);
    const std::vector<double> trained = in_training_order(model, text, {.mini_batch = 1, .segment_length = 8}, 6);
    const std::vector<double> scored = log_probs(model, {.context = 8, .stride = 8, .memory = 6}, text);
    ASSERT_EQ(trained.size(), scored.size());
    for (size_t i = 0; i < scored.size(); ++i) EXPECT_NEAR(trained[i], -scored[i], 1e-4) << i;
  }
}

// Six streams in one batch an update, or in several.
TEST(StreamMemory, AStreamDoesNotDependOnItsBatch) {
  const nn::Model model = test_model("full", "rotary");
  const data::TokenText text = some_text(120, {0});
  const std::vector<double> together = in_training_order(model, text, {.mini_batch = 6, .segment_length = 7}, 9);
  ASSERT_EQ(together.size(), 120);
  for (const int64_t shards : {2, 3, 6}) {
    const std::vector<double> apart =
        in_training_order(model, text, {.mini_batch = 6 / shards, .segment_length = 7, .shards = shards}, 9);
    for (size_t i = 0; i < together.size(); ++i) EXPECT_NEAR(apart[i], together[i], 1e-4) << shards << ", unit " << i;
  }
}

TEST(StreamMemory, ScoresDoNotDependOnTheBatch) {
  const nn::Model model = test_model("topk(4)", "rotary");
  const data::TokenText text = some_text(150, {0, 40, 41, 60, 100});
  const std::vector<double> expected =
      log_probs(model, {.context = 9, .stride = 9, .mini_batch = 1, .memory = 7}, text);
  EXPECT_EQ(expected.size(), 150);
  for (const int64_t batch : {2, 3, 16})
    EXPECT_EQ(log_probs(model, {.context = 9, .stride = 9, .mini_batch = batch, .memory = 7}, text), expected) << batch;
}

TEST(StreamMemory, HelpsOnlyWhatSeesIt) {
  const nn::Model model = test_model("full", "rotary");
  const data::TokenText text = some_text(40, {0});
  const std::vector<double> with = log_probs(model, {.context = 10, .stride = 10, .memory = 10}, text);
  const std::vector<double> without = log_probs(model, {.context = 10, .stride = 10}, text);
  for (size_t i = 0; i < 10; ++i) EXPECT_NEAR(with[i], without[i], 1e-5) << "the first segment has no memory";
  EXPECT_GT(std::abs(with[10] - without[10]), 1e-3);
}

TEST(StreamMemory, StartsAgainWhenAnUpdateIsNotMade) {
  StreamMemory memory(4, 1);
  const data::Segments segments{.inputs = {1, 2}, .outputs = {2, 3}, .offsets = {0, 2}, .streams = {0}, .fresh = {0}};
  const nn::Model model = test_model("full", "rotary");
  const auto step = [&] {
    nn::Model reader = model;
    const auto pass = memory.begin(0, segments);
    reader->decode(
        {.tokens = nn::index_tensor(segments.inputs), .offsets = nn::index_tensor(segments.offsets), .memory = pass},
        {});
    memory.end(0, segments, *pass);
  };
  step();
  EXPECT_TRUE(memory.tensors().empty()) << "before the update is done";
  memory.after_update(true);
  EXPECT_EQ(memory.tensors().at("0/1").sizes(), (std::vector<int64_t>{2, 12}));
  step();
  memory.after_update(true);
  EXPECT_EQ(memory.tensors().at("0/1").sizes(), (std::vector<int64_t>{4, 12})) << "2 units of each segment";
  step();
  memory.after_update(false);
  EXPECT_TRUE(memory.tensors().empty());
}

TEST(StreamMemory, RefusesTensorsOfAnother) {
  StreamMemory memory(4, 1);
  const auto message = [&](const nn::NamedTensors& tensors) {
    return message_of([&] { memory.restore(tensors, {2, 3, at::kFloat}, "resuming 'run'"); });
  };
  nn::NamedTensors tensors = {
      {"0/lengths", at::tensor({5.0}, at::kDouble)}, {"0/0", at::zeros({5, 3})}, {"0/1", at::zeros({5, 3})}};
  EXPECT_EQ(message(tensors),
            "resuming 'run': the memory of its streams does not have the units of --memory-length 4; start a new run "
            "with --pretrained-model");
  tensors.erase("0/1");
  EXPECT_EQ(message(tensors),
            "resuming 'run': the memory of its streams is damaged: 0/1 is missing or has another shape; start a new "
            "run with --pretrained-model");
}

TEST(StreamMemory, NeedsStreamsAndPatternsOfDistances) {
  TestRun shuffled;
  shuffled.model.memory_length = 4;
  shuffled.data.order = "shuffled";
  EXPECT_EQ(message_of([&] { shuffled.task(); }),
            "--memory-length 4 with --order shuffled: segments in random order have no units before them to remember; "
            "use --order stream");
  shuffled.model.memory_length = -1;
  shuffled.model.attention = "span(6,2)";
  EXPECT_EQ(
      message_of([&] { shuffled.task(); }),
      "--memory-length 6 (the limit of span) with --order shuffled: segments in random order have no units before "
      "them to remember; use --order stream, or --memory-length 0");
  LanguageConfig config;
  config.transformer_positions = "sinusoidal";
  config.memory_length = 4;
  config.attention = "local(3)|global(1)";
  EXPECT_EQ(
      message_of([&] { validate(config); }),
      "--memory-length: layer 1 has the pattern 'global', which counts positions from the beginning of a segment, "
      "and memory moves that; use a pattern of distances, such as local(w)");
  config.attention = "4*local(8);4*blocktopk(3,2)+topk(2)";
  EXPECT_EQ(
      message_of([&] { validate(config); }),
      "--memory-length: layer 1 has 'blocktopk(3,2)+topk(2)', whose blocks are counted from a segment's first unit "
      "and have no memory; use --memory-length 0");
  config.attention = "4*local(8);4*routed(3,8)+topk(2)";
  EXPECT_EQ(message_of([&] { validate(config); }),
            "--memory-length: layer 1 has 'routed(3,8)+topk(2)', whose clusters choose among the tokens of a segment "
            "and have no memory; use routed(3,8,causal), or --memory-length 0");
  config.attention = "full", config.attention_layers = {"decoder.2=routed(3,8,causal)"};
  EXPECT_EQ(message_of([&] { validate(config); }), "nothing was thrown");
  config.same_length = true;
  EXPECT_EQ(message_of([&] { validate(config); }),
            "--same-length: layer 2 has 'routed(3,8,causal)', which counts members of a cluster, not units; leave "
            "--same-length out");
  config.attention_layers.clear();
  config.memory_length = 0;
  EXPECT_EQ(message_of([&] { validate(config); }),
            "--same-length is set without --memory-length, which says how far each unit sees; set both");
  EXPECT_EQ(memory_of(LanguageConfig{}), 0);
  LanguageConfig spans;
  spans.attention = "4*span(6,2);4*local(9)";
  spans.attention_layers = {"decoder.3=span(40,2)"};
  EXPECT_EQ(memory_of(spans), 40);
  spans.memory_length = 3;
  EXPECT_EQ(memory_of(spans), 3);
}

}  // namespace
}  // namespace fovea::language::stream_memory_test
