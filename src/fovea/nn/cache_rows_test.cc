#include "fovea/nn/cache_rows.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <string>
#include <vector>

#include "fovea/nn/index_tensor.h"
#include "fovea/nn/model.h"
#include "fovea/nn/step_cache.h"
#include "fovea/nn/test_models.h"
#include "fovea/spec/testing/classic_layers.h"

// Narrow buffers of a StepCache follow their rows, and a model that keeps them makes nearly the same hidden states.
namespace fovea::nn::cache_rows_test {
namespace {

constexpr int64_t kHeads = 2, kShare = 2, kWidth = 24;

const char* title(CacheType type) { return type == CacheType::kInt8 ? "int8" : "bfloat16"; }

// The numbers that the type keeps of x [.., D].
at::Tensor rounded(const at::Tensor& x, CacheType type) {
  if (type == CacheType::kBFloat16) return x.to(at::kBFloat16).to(at::kFloat);
  const at::Tensor step = x.abs().amax(-1, true) / 127;
  return (x / step).round() * step;
}

// A narrow cache beside one in float32, in which the rounded numbers are written.
class Pair {
 public:
  Pair(CacheType type, int64_t rows) : type_(type), narrow_(make(rows)), exact_(make(rows)) { narrow_.narrow(0, type); }
  void grow(const std::vector<int64_t>& counts) {
    std::vector<int64_t> offsets = {0};
    for (const int64_t count : counts) offsets.push_back(offsets.back() + count);
    write(index_tensor(offsets), torch::randn({offsets.back(), 2 * kHeads, kWidth}));
  }
  // Keys and values [T, 2 H, D] of new tokens.
  void write(const at::Tensor& offsets, const at::Tensor& stacked) {
    offsets_ = offsets;
    narrow_.append(offsets_), exact_.append(offsets_);
    narrow_.write(0, stacked), exact_.write(0, rounded(stacked, type_));
  }
  void inherit(const std::vector<int64_t>& parents) { narrow_.inherit(parents), exact_.inherit(parents); }
  void add_rows(int64_t count) { narrow_.add_rows(count), exact_.add_rows(count); }

  // The tokens of the last grow().
  void expect_same_attention(const std::string& what) {
    expect_same_attention(torch::randn({offsets_[-1].item<int64_t>(), kShare * kHeads, kWidth}), what);
  }
  void expect_same_attention(const at::Tensor& q, const std::string& what) {
    const std::vector<int64_t> none(narrow_.lengths().size(), 0);
    const StepCache::Keys places = narrow_.key_places(none), exact = exact_.key_places(none);
    const at::Tensor ours = attend_narrow(q, {narrow_.layer_rows(0), offsets_, places.begins, places.lengths});
    ops::AttentionOptions options;
    options.kind = AttentionKind::kCausal;
    options.enable_gqa = true;
    options.q_offsets = offsets_;
    options.k_begins = exact.begins, options.k_lengths = exact.lengths;
    const at::Tensor want = ops::attention(q, exact_.keys(0), exact_.values(0), "full", options);
    // Rounding of float32: an 8-bit unit that lies at a half may also go the other way in one of the two.
    EXPECT_LT((ours - want).abs().max().item<double>(), 2e-3) << what << ' ' << title(type_);
    EXPECT_LT((ours - want).abs().mean().item<double>(), 2e-6) << what << ' ' << title(type_);
  }

 private:
  static StepCache make(int64_t rows) {
    return {StepCache::Rows::kApart, rows, {1, kHeads, kWidth}, at::TensorOptions(at::kFloat)};
  }
  CacheType type_;
  StepCache narrow_, exact_;
  at::Tensor offsets_;
};

TEST(CacheRows, FollowTheCache) {
  for (const CacheType type : {CacheType::kBFloat16, CacheType::kInt8}) {
    torch::manual_seed(1);
    Pair pair(type, 3);
    pair.grow({5, 1, 40});
    pair.expect_same_attention("a prompt of each row");
    pair.grow({1, 1, 1});
    pair.expect_same_attention("a step");
    pair.inherit({2, 0, 2});
    pair.grow({1, 7, 1});
    pair.expect_same_attention("a row twice, and some tokens of another");
    for (int i = 0; i < 40; ++i) pair.grow({1, 1, 1});
    pair.expect_same_attention("grown buffers");
    pair.inherit({1});
    pair.add_rows(2);
    pair.grow({1, 3, 1});
    pair.expect_same_attention("rows that leave and come");
  }
}

TEST(CacheRows, AValueWithoutWeightIsNotRead) {
  for (const CacheType type : {CacheType::kBFloat16, CacheType::kInt8}) {
    Pair pair(type, 1);
    at::Tensor stacked = torch::randn({5, 2 * kHeads, kWidth});
    stacked[1].narrow(0, 0, kHeads).fill_(-1e4);
    stacked[1].narrow(0, kHeads, kHeads).fill_(std::numeric_limits<float>::infinity());
    pair.write(index_tensor({0, 5}), stacked);
    pair.grow({1});
    pair.expect_same_attention(torch::ones({1, kShare * kHeads, kWidth}), "a value of infinity");
  }
}

TEST(CacheRows, AModelsHiddenStatesStayNear) {
  DecoderConfig config;
  set_classic_layers(config, "pre");
  config.dec_depth = 2, config.dim_emb = 64, config.transformer_heads = 4, config.transformer_heads_kv = 2;
  config.transformer_dim_ffn = 64, config.dim_vocabs = {40}, config.transformer_positions = "rotary";
  config.attention_layers = {"decoder.2=window(8)"};
  Model model(config, 1);
  model->eval();
  EXPECT_EQ(model->count_narrow_layers(), 1);
  const auto layers = model->pack();
  const at::Tensor tokens = torch::randint(40, {30});
  const auto run = [&](CacheType type, int64_t others) {
    auto state = model->start(1 + others, layers, StepCache::Rows::kApart, {}, type);
    // The others read a prompt while the first row goes on.
    for (int64_t t = 0; t < tokens.size(0); ++t) {
      std::vector<int64_t> units = {tokens[t].item<int64_t>()}, offsets = {0, 1};
      for (int64_t i = 0; i < others; ++i) {
        for (int64_t n = 0; n < 3; ++n) units.push_back((t + n) % 40);
        offsets.push_back(std::ssize(units));
      }
      const at::Tensor hidden = state->prefill(index_tensor(units), index_tensor(offsets));
      if (t + 1 == tokens.size(0)) return hidden[0].clone();
    }
    return at::Tensor();
  };
  const at::Tensor exact = run(CacheType::kModel, 0);
  for (const auto& [type, most] : {std::pair{CacheType::kBFloat16, 0.01}, {CacheType::kInt8, 0.03}}) {
    const at::Tensor narrow = run(type, 0);
    const double difference = (narrow - exact).norm().item<double>() / exact.norm().item<double>();
    EXPECT_LT(difference, most) << title(type);
    EXPECT_GT(difference, 1e-6) << "the layer did not keep " << title(type);
    EXPECT_TRUE(torch::equal(narrow, run(type, 2))) << "other rows change nothing, " << title(type);
  }
}

}  // namespace
}  // namespace fovea::nn::cache_rows_test
