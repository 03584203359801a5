#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/workspace.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/screen_ops.h"
#include "fovea/kernels/attention/cpu/screened_score_test.h"

// The bound: every score of the product lies within it of the exact one.
namespace fovea::kernels::screen_bound_test {
namespace {

std::vector<ScreenFormat> formats() {
  std::vector<ScreenFormat> all = {ScreenFormat::kFloat32};
  if (has_tiles() || has_int8_product()) all.push_back(ScreenFormat::kInt8);
  const bool has_avx2 = (FOVEA_LEVEL_MASK & 2) != 0 && vector_isa() >= Isa::kAvx2 && vector_isa() <= Isa::kAvx512Bf16;
  if (has_avx2) all.push_back(ScreenFormat::kInt16);
  if (has_avx2) all.push_back(ScreenFormat::kBytePairs);
  return all;
}

// The vectors of a test of the bound: value i of vector `row`.
struct Vectors {
  const char* name;
  std::function<double(Rng&, int64_t row, int64_t i)> value;
};

const std::vector<Vectors>& vector_kinds() {
  static const std::vector<Vectors> kKinds = {
      {"normal", [](Rng& rng, int64_t, int64_t) { return rng.normal(); }},
      {"one large component", [](Rng& rng, int64_t, int64_t i) { return rng.normal() * (i % 7 == 3 ? 200 : 1); }},
      {"a shared vector", [](Rng& rng, int64_t, int64_t i) { return 50 * std::sin(double(i)) + rng.normal(); }},
      {"a few long vectors", [](Rng& rng, int64_t row, int64_t) { return rng.normal() * (row % 90 == 5 ? 1e4 : 1); }},
      {"huge", [](Rng& rng, int64_t, int64_t) { return 1e18 * rng.normal(); }},
      {"tiny", [](Rng& rng, int64_t, int64_t) { return 1e-30 * rng.normal(); }},
      {"denormal", [](Rng& rng, int64_t, int64_t) { return 1e-42 * rng.normal(); }},
      // Sums are as large as the norms allow, and of both signs.
      {"along a line", [](Rng&, int64_t row, int64_t i) { return double((row % 5) - 2) * double(1 + i % 3); }},
      // Products of neighbours are as large as the greatest numbers allow.
      {"two components", [](Rng&, int64_t row, int64_t i) { return i < 2 ? double(row % 3) - 1 : 0.0; }},
      {"all equal", [](Rng&, int64_t, int64_t) { return 0.3; }},
      {"zero", [](Rng&, int64_t, int64_t) { return 0.0; }},
  };
  return kKinds;
}

// Queries and keys, packed, and the screened scores of a block.
class Screened {
 public:
  Screened(ScreenFormat format, const Vectors& queries, const Vectors& keys, int64_t width)
      : title_(cat(name(isa()), ", format ", static_cast<int>(format), ", ", queries.name, " x ", keys.name, ", width ",
                   width)),
        width_(width),
        q_(aligned<float>(kBlockQueries * width)),
        k_(aligned<float>(kKeys * width)),
        mean_(aligned<float>(width)) {
    Rng rng(7);
    for (int64_t i = 0; i < kBlockQueries * width; ++i) {
      q_[static_cast<size_t>(i)] = static_cast<float>(queries.value(rng, i / width, i % width));
    }
    for (int64_t i = 0; i < kKeys * width; ++i) {
      k_[static_cast<size_t>(i)] = static_cast<float>(keys.value(rng, i / width, i % width));
      if (i < width) mean_[static_cast<size_t>(i)] = k_[static_cast<size_t>(i)];
    }
    packed_.format = format;
    pack();
  }
  bool is_finite() const { return packed_.finite; }

  void check_block(int64_t block) {
    const int64_t count = std::min<int64_t>(kBlockKeys, kKeys - block * kBlockKeys);
    screen_product(packed_.format)(
        {query_words_.get(), start_, thresholds_,
         words_.get() + block * kBlockKeys / kTileKeys * tile_words(packed_.format, packed_.steps), scores_.get(),
         hits_.get(), packed_.steps, kBlockQueries, (count + kTileKeys - 1) / kTileKeys});
    for (int64_t i = 0; i < kBlockQueries; ++i) {
      if (!rows_[static_cast<size_t>(i)].finite) continue;  // scored exactly
      for (int64_t j = 0; j < count; ++j) check(block, i, j);
      if (testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  static constexpr int64_t kKeys = kBlockKeys + 70;  // a second, partial block
  static constexpr float kScale = -0.125F;

  void pack() {
    packed_.num_keys = kKeys;
    packed_.width = width_;
    packed_.steps = screen_steps(packed_.format, width_);
    packed_.rows = k_.get();
    packed_.mean = mean_.get();
    words_ = aligned<uint32_t>(2 * kBlockKeys * packed_.steps);
    packed_.words = words_.get();
    packed_.blocks = blocks_.data();
    screen_ops().pack_keys(packed_);
    query_words_ = aligned<uint32_t>(kBlockQueries * packed_.steps);
    for (int64_t i = 0; i < kBlockQueries; ++i) {
      uint32_t* words = query_words_.get() + i * packed_.steps;
      rows_.push_back(screen_ops().pack_query(packed_, q_.get() + i * width_, kScale, words));
      start_[i] = rows_.back().start;
    }
  }

  double exact_score(int64_t query, int64_t key) const {
    double exact = 0;
    for (int64_t d = 0; d < width_; ++d) {
      exact += double{kScale} * q_[static_cast<size_t>(query * width_ + d)] *
               (double{k_[static_cast<size_t>(key * width_ + d)]} - mean_[static_cast<size_t>(d)]);
    }
    return exact;
  }

  // Score j of the block and whether it reaches the threshold, which is 0.
  void check(int64_t block, int64_t i, int64_t j) const {
    const PackedQuery& row = rows_[static_cast<size_t>(i)];
    const KeyBlock& keys = blocks_[static_cast<size_t>(block)];
    const bool integers = is_integer(packed_.format);
    const double score = screened_score(packed_.format, scores_.get() + i * kScoreStride, j);
    const double screened = integers ? score * (double{keys.step} * row.step) : score;
    const double factor = std::ldexp(0.125, std::ilogb(row.factor / 0.125));  // row.factor, before rounding to float
    ASSERT_LE(std::abs(screened - exact_score(i, block * kBlockKeys + j) / factor), row.bound(keys))
        << title_ << ", query " << i << ", key " << j;
    const bool reaches = score >= 0;
    const uint16_t mask = hits_[static_cast<size_t>(i * kBlockGroups + j / kGroupKeys)];
    ASSERT_EQ((mask >> (j % kGroupKeys)) & 1, reaches ? 1 : 0);
  }

  std::string title_;
  int64_t width_;
  Aligned<float> q_, k_, mean_;
  PackedKeys packed_;
  std::vector<KeyBlock> blocks_ = std::vector<KeyBlock>(2);
  Aligned<uint32_t> words_, query_words_;
  std::vector<PackedQuery> rows_;
  uint32_t start_[kBlockQueries] = {}, thresholds_[kBlockQueries] = {};
  Aligned<uint32_t> scores_ = aligned<uint32_t>(kBlockQueries * kScoreStride);
  Aligned<uint16_t> hits_ = aligned<uint16_t>(kBlockQueries * kBlockGroups);
};

void check_bound(ScreenFormat format, const Vectors& queries, const Vectors& keys, int64_t width) {
  Screened screened(format, queries, keys, width);
  ASSERT_TRUE(screened.is_finite());
  for (const int64_t block : {0, 1}) screened.check_block(block);
}

TEST(Screening, StaysWithinItsBound) {
  for (const Isa level : runnable_isas()) {
    const AtIsa at(level);
    for (const ScreenFormat format : formats()) {
      for (const Vectors& queries : vector_kinds()) {
        for (const Vectors& keys : vector_kinds()) check_bound(format, queries, keys, 32);
      }
      const Vectors& line = *std::find_if(vector_kinds().begin(), vector_kinds().end(),
                                          [](const Vectors& kind) { return kind.name == std::string("along a line"); });
      for (const int64_t width : {16, 48, 64, 128, 144, 256}) {
        check_bound(format, vector_kinds()[1], vector_kinds()[2], width);
        check_bound(format, line, line, width);
      }
    }
  }
}

}  // namespace
}  // namespace fovea::kernels::screen_bound_test
