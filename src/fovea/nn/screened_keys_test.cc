#include "fovea/nn/screened_keys.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/nn/step_cache.h"

// The copy of the keys follows its cache: attention over the cache gives the same bits with it and without.
namespace fovea::nn::screened_keys_test {
namespace {

constexpr int64_t kHeads = 2, kShare = 2, kWidth = 40;

class Cache {
 public:
  Cache(StepCache::Rows kind, int64_t rows, at::ScalarType type)
      : cache_(kind, rows, {1, kHeads, kWidth}, at::TensorOptions(type)), type_(type) {
    cache_.screen_keys(0);
  }
  StepCache* operator->() { return &cache_; }

  void grow(const std::vector<int64_t>& counts) {
    std::vector<int64_t> offsets = {0};
    for (const int64_t count : counts) offsets.push_back(offsets.back() + count);
    cache_.append(torch::tensor(offsets));
    cache_.write(0, torch::randn({offsets.back(), 2 * kHeads, kWidth}).to(type_));
  }

  // A step of every row that has tokens.
  void expect_same(const std::string& what) {
    const auto lengths = cache_.lengths();
    const StepCache::Keys keys = cache_.key_places(std::vector<int64_t>(lengths.size(), 0));
    ops::AttentionOptions options;
    options.kind = AttentionKind::kCausal;
    options.enable_gqa = true;
    options.q_offsets = torch::arange(cache_.rows() + 1);
    options.k_begins = keys.begins, options.k_lengths = keys.lengths, options.k_tokens = keys.tokens;
    const at::Tensor q = torch::randn({cache_.rows(), kShare * kHeads, kWidth}).to(type_);
    for (const char* spec : {"topk(8)", "1*topk(20)+relu;2*topk(3);1*full"}) {
      options.screen = {};
      const at::Tensor without = ops::attention(q, cache_.keys(0), cache_.values(0), spec, options);
      options.screen = cache_.key_screen(0);
      const at::Tensor with = ops::attention(q, cache_.keys(0), cache_.values(0), spec, options);
      EXPECT_TRUE(torch::equal(with, without)) << what << ", " << spec;
    }
  }

 private:
  StepCache cache_;
  at::ScalarType type_;
};

TEST(ScreenedKeys, FollowTheCache) {
  for (const StepCache::Rows kind : {StepCache::Rows::kApart, StepCache::Rows::kShared}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(std::string(kind == StepCache::Rows::kApart ? "apart " : "shared ") + at::toString(type));
      torch::manual_seed(5);
      Cache cache(kind, 3, type);
      cache.grow({300, 5, 400});
      EXPECT_FALSE(cache->key_screen(0).rows.defined());  // short rows do without
      cache.grow({1, 1, 200});
      EXPECT_TRUE(cache->key_screen(0).rows.defined());
      cache.expect_same("the copy begins");
      for (int step = 0; step < 3; ++step) {
        cache.grow({1, 1, 1});
        cache.expect_same("a step");
      }
      cache->inherit(std::vector<int64_t>{2, 0, 2, 0, 1, 2});
      cache.expect_same("rows multiply");
      cache.grow({1, 1, 1, 1, 1, 1});
      cache.expect_same("rows part");
      cache->inherit(std::vector<int64_t>{5, 1});
      cache.grow({500, 1});
      cache.expect_same("rows leave and grow");
      cache->add_rows(1);
      cache.grow({1, 1, 700});
      cache.expect_same("a row comes");
      cache->inherit(std::vector<int64_t>{2});
      cache.grow({1});
      cache.expect_same("one row stays");
    }
  }
}

// Each step is exact whatever the prompt's first keys were: their mean is only a centre.
TEST(ScreenedKeys, BeginAtAPrompt) {
  for (const int64_t prompt : {1, 15, 16, 600, 2000}) {
    torch::manual_seed(prompt);
    Cache cache(StepCache::Rows::kApart, 1, at::kFloat);
    cache.grow({prompt});
    cache.grow({700});
    cache.expect_same("after a prompt of " + std::to_string(prompt));
  }
}

TEST(ScreenedKeys, AreKeptWhereTheyAreRead) {
  for (const char* spec : {"topk(8)", "topk(8)+relu"})
    EXPECT_TRUE(ops::reads_key_screen(parse_attention(spec))) << spec;
  for (const char* spec : {"full", "window(64)+topk(8)", "topk(8,keep=window(2))", "topk(8)+sparsemax"}) {
    EXPECT_FALSE(ops::reads_key_screen(parse_attention(spec))) << spec;
  }
  StepCache cache(StepCache::Rows::kApart, 1, {1, 2, 8}, at::kDouble);
  cache.screen_keys(0);
  cache.append(torch::tensor(std::vector<int64_t>{0, 600}));
  EXPECT_FALSE(cache.key_screen(0).rows.defined());
}

TEST(ScreenedKeys, TensorsThatDoNotFitAreRefused) {
  const at::Tensor keys = torch::randn({4, 2, 40}), centre = torch::zeros({2, 40});
  const ops::KeyScreen screen = ops::empty_key_screen(10, 2, 40);
  EXPECT_THROW(ops::pack_key_screen(keys, ops::empty_key_screen(10, 3, 40), centre, {}, 0), Error);
  EXPECT_THROW(ops::pack_key_screen(keys.to(at::kDouble), screen, centre, {}, 0), Error);
  EXPECT_THROW(ops::pack_key_screen(keys, screen, centre.t(), {}, 0), Error);
  EXPECT_THROW(ops::pack_key_screen(keys, screen, centre, {}, 7), Error);
  EXPECT_THROW(ops::pack_key_screen(keys, screen, centre, torch::tensor({0, 1, 2, 10}), 0), Error);
  EXPECT_THROW(ops::pack_key_screen(keys, screen, centre, torch::tensor({0, 1}), 0), Error);
  EXPECT_NO_THROW(ops::pack_key_screen(keys, screen, centre, torch::tensor({9, 1, 2, 0}), 0));
  ops::AttentionOptions options;
  options.screen = screen;
  EXPECT_THROW(ops::attention(keys, keys, keys, "topk(2)", options), Error);  // no k_begins
}

}  // namespace
}  // namespace fovea::nn::screened_keys_test
