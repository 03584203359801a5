#include "fovea/nn/step_cache.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>

#include "fovea/base/rng.h"
#include "fovea/nn/index_tensor.h"

namespace fovea::nn::step_cache_test {
namespace {

constexpr int64_t kLayers = 2, kHeads = 2, kWidth = 3;

// Rows as plain lists of the numbers of their tokens, beside a cache whose keys are these numbers.
class Checked {
 public:
  Checked(StepCache::Rows kind, int64_t rows)
      : kind_(kind), cache_(kind, rows, {kLayers, kHeads, kWidth}, at::TensorOptions(at::kFloat)) {
    rows_.resize(static_cast<size_t>(rows));
  }

  int64_t rows() const { return std::ssize(rows_); }
  int64_t room() const { return cache_.room(); }
  int64_t live() const {
    std::map<int64_t, bool> all;
    for (const auto& row : rows_) {
      for (const int64_t token : row) all[token] = true;
    }
    return std::ssize(all);
  }
  int64_t longest() const {
    int64_t most = 0;
    for (const auto& row : rows_) most = std::max(most, std::ssize(row));
    return most;
  }

  void append(const std::vector<int64_t>& counts) {
    std::vector<int64_t> offsets = {0};
    std::vector<at::Tensor> stacked;
    for (size_t r = 0; r < counts.size(); ++r) {
      for (int64_t i = 0; i < counts[r]; ++i) {
        rows_[r].push_back(next_);
        stacked.push_back(at::full({1, 3 * kHeads, kWidth}, static_cast<double>(next_++)));
      }
      offsets.push_back(std::ssize(stacked));
    }
    cache_.append(index_tensor(offsets));
    for (size_t layer = 0; layer < kLayers; ++layer)
      cache_.write(layer, at::cat(stacked) + static_cast<double>(layer) / 2);
  }
  void inherit(const std::vector<int64_t>& parents) {
    std::vector<std::vector<int64_t>> next;
    for (const int64_t parent : parents) next.push_back(rows_[static_cast<size_t>(parent)]);
    rows_ = std::move(next);
    cache_.inherit(parents);
  }
  void add_rows(int64_t count) {
    rows_.resize(rows_.size() + static_cast<size_t>(count));
    cache_.add_rows(count);
  }

  void check() const {
    const std::vector<int64_t> first(rows_.size(), 0);
    const StepCache::Keys keys = cache_.key_places(first);
    EXPECT_EQ(keys.tokens.has_value(), kind_ == StepCache::Rows::kShared);
    for (size_t r = 0; r < rows_.size(); ++r) {
      ASSERT_EQ(keys.lengths[static_cast<int64_t>(r)].item<int64_t>(), std::ssize(rows_[r]));
      EXPECT_EQ(cache_.lengths()[r], std::ssize(rows_[r]));
      for (size_t i = 0; i < rows_[r].size(); ++i) {
        int64_t place = keys.begins[static_cast<int64_t>(r)].item<int64_t>() + static_cast<int64_t>(i);
        if (keys.tokens) place = (*keys.tokens)[place].item<int64_t>();
        for (size_t layer = 0; layer < kLayers; ++layer) {
          const auto expected = static_cast<float>(rows_[r][i]) + static_cast<float>(layer) / 2;
          ASSERT_EQ(cache_.keys(layer)[place][1][2].item<float>(), expected) << "row " << r << ", token " << i;
          ASSERT_EQ(cache_.values(layer)[place][0][0].item<float>(), expected);
        }
      }
    }
  }

 private:
  StepCache::Rows kind_;
  StepCache cache_;
  std::vector<std::vector<int64_t>> rows_;
  int64_t next_ = 0;
};

// Rows grow, fork, leave and come.
void run_plan(StepCache::Rows kind, uint64_t seed) {
  Rng rng(seed);
  Checked cache(kind, 1 + static_cast<int64_t>(rng.below(4)));
  for (int step = 0; step < 60; ++step) {
    if (cache.rows() > 0) {
      std::vector<int64_t> counts;
      for (int64_t r = 0; r < cache.rows(); ++r) counts.push_back(rng.below(9) == 0 ? 7 : 1);
      cache.append(counts);
    }
    if (rng.below(2) == 0) {
      std::vector<int64_t> parents;
      for (int64_t r = 0; r < cache.rows(); ++r) {
        for (uint64_t copies = rng.below(7) == 0 ? 2 : rng.below(6) == 0 ? 0 : 1; copies > 0; --copies)
          parents.push_back(r);
      }
      cache.inherit(parents);
    }
    if (rng.below(3) == 0) cache.add_rows(static_cast<int64_t>(rng.below(3)));
    if (step % 10 == 9) cache.check();
  }
}

TEST(StepCache, RowsKeepTheirTokensWhateverHappensToOthers) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    run_plan(StepCache::Rows::kShared, seed);
    run_plan(StepCache::Rows::kApart, seed);
  }
}

// A thousand texts of 40 tokens pass through 5 rows.
TEST(StepCache, RoomFollowsTheRowsThatAreThere) {
  for (const auto kind : {StepCache::Rows::kShared, StepCache::Rows::kApart}) {
    Checked cache(kind, 5);
    int64_t most = 0;
    for (int step = 0; step < 1000; ++step) {
      cache.append(std::vector<int64_t>(5, 1));
      if (step % 8 == 7) {
        cache.inherit({1, 2, 3, 4});
        cache.add_rows(1);
      }
      most = std::max(most, cache.room());
    }
    cache.check();
    EXPECT_EQ(cache.longest(), 32);  // the row of 40 has just left
    // Up to 120 tokens live at once; buffers double before they are half empty.
    EXPECT_LE(most, 1000);
  }
}

// From 1,024 tokens of room on, the tokens of a head lie side by side.
TEST(StepCache, LongRowsKeepTheirTokens) {
  Checked cache(StepCache::Rows::kApart, 2);
  cache.append({505, 3});
  for (int step = 0; step < 9; ++step) cache.append({1, 1});
  cache.check();
  cache.inherit({0, 1, 0});
  cache.append({1, 7, 2});
  cache.add_rows(2);
  cache.append({1, 1, 1, 600, 1});
  cache.check();
  cache.inherit({4, 1});
  cache.append({1, 1});
  cache.check();
}

TEST(StepCache, OneLongRowThatLeavesGivesItsRoomBack) {
  Checked cache(StepCache::Rows::kApart, 2);
  cache.append({5000, 3});
  EXPECT_GE(cache.room(), 10000);
  cache.inherit({1});
  EXPECT_LE(cache.room(), 200);
  cache.check();
}

}  // namespace
}  // namespace fovea::nn::step_cache_test
