#include "fovea/nn/weight_blocks.h"
#include "fovea/nn/memory.h"

#include <ATen/ops/cat.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "fovea/nn/model.h"
#include "fovea/nn/test_models.h"
#include "fovea/spec/testing/classic_layers.h"

namespace fovea::nn::weight_blocks_test {
namespace {

// The blocks of one pass put together again: [B, H, N_q, N_k] as the dense weights are, and how many blocks there were.
struct Collected {
  at::Tensor weights;
  int64_t blocks = 0, largest = 0;
};

Collected collect(const SeenAttention& seen, int64_t most) {
  const at::Tensor dense = seen.dense();
  Collected all{at::zeros_like(dense)};
  int64_t sequence = 0, query = 0;
  each_weight_block(
      seen,
      [&](const WeightBlock& block) {
        ++all.blocks;
        all.largest = std::max(all.largest, block.heads * block.queries * block.columns);
        if (block.sequence != sequence) sequence = block.sequence, query = 0;
        EXPECT_EQ(block.first_query, query) << "queries in their order";
        query += block.queries;
        for (int64_t h = 0; h < block.heads; ++h) {
          for (int64_t i = 0; i < block.queries; ++i) {
            for (int64_t j = 0; j < block.columns; ++j) {
              all.weights[block.sequence][h][block.first_query + i][j] =
                  block.data[h * block.head_stride + i * block.row_stride + j];
            }
          }
        }
      },
      most);
  EXPECT_LT((all.weights - dense).abs().max().item<double>(), 1e-6)
      << print(seen.spec) << ": rounding of float32 products";
  EXPECT_TRUE(all.weights.eq(0).equal(dense.eq(0))) << print(seen.spec);
  return all;
}

TEST(WeightBlocks, AreTheDenseWeights) {
  for (const char* spec : {"full", "topk(3)", "window(4)", "entmax(1.5)", "relu", "random(3)", "block(4)", "strided(3)",
                           "global(2)|window(2)", "routed(2,4)", "routed(2,4,causal)", "1*window(3);1*routed(2,4)"}) {
    DecoderConfig config;
    set_classic_layers(config, "pre");
    config.dim_emb = 16, config.transformer_heads = 2, config.dec_depth = 2, config.transformer_dim_ffn = 16;
    config.dim_vocabs = {17};
    config.attention = spec;
    Model model(config, 3);
    model->eval();
    const at::NoGradGuard no_grad;
    int64_t passes = 0;
    const AttentionObserver observer([&](const SeenAttention& seen) {
      ++passes;
      EXPECT_GT(collect(seen, 64).blocks, 5) << spec << ": long sequences are cut";
      EXPECT_LE(collect(seen, 64).largest, 64) << spec;
      EXPECT_EQ(collect(seen, 1 << 20).blocks, 3) << spec << ": short ones are not";
    });
    const at::Tensor tokens = at::randint(17, {30}, at::kLong);
    model->decode({tokens, at::tensor({0, 11, 12, 30}, at::kLong)}, {});
    EXPECT_EQ(passes, 2);
  }
}

TEST(WeightBlocks, OfBothSides) {
  for (const char* spec : {"full", "topk(3)", "sparsemax", "relu", "random(3)"}) {
    ModelConfig config;
    set_classic_layers(config);
    config.dim_emb = 16, config.transformer_heads = 2, config.enc_depth = config.dec_depth = 1;
    config.transformer_dim_ffn = 16;
    config.dim_vocabs = {17, 17};
    config.attention = spec;
    Model model(config, 3);
    model->eval();
    const at::NoGradGuard no_grad;
    int64_t passes = 0;
    const AttentionObserver observer([&](const SeenAttention& seen) {
      ++passes;
      collect(seen, 40);
      collect(seen, 1 << 20);
    });
    const at::Tensor source = at::randint(17, {20}, at::kLong), target = at::randint(17, {15}, at::kLong);
    const at::Tensor offsets = at::tensor({0, 8, 20}, at::kLong);
    model->decode({target, at::tensor({0, 3, 15}, at::kLong), model->encode({source, offsets}, {}), offsets}, {});
    EXPECT_EQ(passes, 3);
  }
}

// The first query stands behind the remembered keys.
TEST(WeightBlocks, WithMemory) {
  DecoderConfig config;
  set_classic_layers(config, "pre");
  config.dim_emb = 16, config.transformer_heads = 2, config.dec_depth = 1, config.transformer_dim_ffn = 16;
  config.dim_vocabs = {17};
  config.transformer_positions = "shaw(4)";
  config.attention = "topk(3)";
  Model model(config, 3);
  model->eval();
  const at::NoGradGuard no_grad;
  Memory memory = Memory::none(1);
  for (int64_t segment = 0; segment < 2; ++segment) {
    const AttentionObserver observer([&](const SeenAttention& seen) {
      collect(seen, 32);
      each_weight_block(
          seen, [&](const WeightBlock& block) { EXPECT_EQ(block.first_position, segment * 6); }, 32);
    });
    const auto pass = std::make_shared<MemoryPass>(std::move(memory), 6);
    model->decode({.tokens = at::randint(17, {9}, at::kLong), .offsets = at::tensor({0, 9}, at::kLong), .memory = pass},
                  {});
    memory = pass->take();
  }
}

}  // namespace
}  // namespace fovea::nn::weight_blocks_test
