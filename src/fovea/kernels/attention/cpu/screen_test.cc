#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/workspace.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/screen_kernels.h"
#include "fovea/kernels/attention/cpu/screen_ops.h"
#include "fovea/kernels/attention/testing/kernel_run.h"

namespace fovea::kernels {
namespace {

using testing_suite::Array;
using testing_suite::Inputs;
using testing_suite::Layout;
using testing_suite::Results;

class AtIsa {
 public:
  explicit AtIsa(Isa level) { set_isa(level); }
  ~AtIsa() { set_isa(best_isa()); }
};

std::vector<ScreenFormat> formats() {
  std::vector<ScreenFormat> all = {ScreenFormat::kFloat32};
  if (vector_isa() == Isa::kAvx512Bf16) all.push_back(ScreenFormat::kBFloat16);
  if (has_tiles() || has_int8_product()) all.push_back(ScreenFormat::kInt8);
  if (vector_isa() >= Isa::kAvx2) all.push_back(ScreenFormat::kInt16);
  return all;
}

// ---- the bound: every score of the product lies within it of the exact one ----

// How the vectors of a test of the bound are made: value i of vector `row`.
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
    screen_product(packed_.format)({query_words_.get(), start_, thresholds_,
                                    words_.get() + block * kBlockKeys * packed_.steps, scores_.get(), hits_.get(),
                                    packed_.steps, kBlockQueries, (count + kTileKeys - 1) / kTileKeys});
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
    const uint32_t bits = scores_[static_cast<size_t>(i * kScoreStride + j)];
    const auto as_float = std::bit_cast<float>(bits);
    const double screened = integers ? static_cast<int32_t>(bits) * (double{keys.step} * row.step) : as_float;
    const double factor = std::ldexp(0.125, std::ilogb(row.factor / 0.125));  // row.factor, before rounding to float
    ASSERT_LE(std::abs(screened - exact_score(i, block * kBlockKeys + j) / factor), row.bound(keys))
        << title_ << ", query " << i << ", key " << j;
    const bool reaches = integers ? static_cast<int32_t>(bits) >= 0 : as_float >= 0;
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
      for (const int64_t width : {16, 48, 144, 256}) check_bound(format, vector_kinds()[1], vector_kinds()[2], width);
    }
  }
}

TEST(Screening, FindsTheKthGreatest) {
  Rng rng(3);
  for (const Isa level : runnable_isas()) {
    const AtIsa at(level);
    for (const int64_t count : {1, 2, 15, 16, 17, 33, 100, 700}) {
      for (int kind = 0; kind < 4; ++kind) {
        std::vector<float> values(static_cast<size_t>(count) + 16, 77);
        for (int64_t i = 0; i < count; ++i) {
          const double x = rng.normal();
          values[static_cast<size_t>(i)] = static_cast<float>(kind == 0   ? x
                                                              : kind == 1 ? std::round(x)
                                                              : kind == 2 ? std::exp(40 * x)
                                                              : x > 1     ? INFINITY
                                                                          : -1e-40 * x);
        }
        std::vector<float> sorted(values.begin(), values.begin() + count);
        std::sort(sorted.begin(), sorted.end(), std::greater<>());
        for (const int64_t k : {int64_t{1}, (count + 1) / 2, count}) {
          EXPECT_EQ(screen_ops().kth_greatest(values.data(), count, k), sorted[static_cast<size_t>(k - 1)])
              << name(level) << " count " << count << " k " << k << " kind " << kind;
          const float reached = screen_ops().reached_by(values.data(), count, k, 2);
          EXPECT_GE(std::count_if(sorted.begin(), sorted.end(), [&](float x) { return x >= reached; }), k);
        }
      }
    }
  }
}

TEST(Screening, SearchesEntmaxFromBelow) {
  Rng rng(4);
  for (const Isa level : runnable_isas()) {
    const AtIsa at(level);
    for (const double alpha : {1.001, 1.3, 1.5, 2.0, 2.5, 3.2, 8.0}) {
      const EntmaxPower power(alpha);
      for (const int64_t count : {1, 7, 64, 300}) {
        std::vector<float> values(static_cast<size_t>(count) + 16);
        for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = static_cast<float>(rng.normal());
        const float top = *std::max_element(values.begin(), values.begin() + count);
        const auto mu = [&](float start, float tolerance) {
          return power.mu_of(screen_ops().entmax_root(power, {values.data(), count, top, 1, start, tolerance}));
        };
        const float exact = mu(0, 0), rough = mu(0, 0x1p-7F), slack = 4e-7F * std::max(1.0F, exact);
        const std::string what = cat(name(level), " alpha ", alpha, " count ", count);
        EXPECT_LE(rough, exact + slack) << what;
        EXPECT_GT(rough, exact - 0.05F) << what;
        EXPECT_NEAR(mu(std::max(0.0F, rough - 1e-4F * power.c), 0), exact, slack) << what;
      }
    }
  }
}

// Flat rows, as of a model that has just been initialised: from 0 the first steps go far, through weights whose sum
// falls from thousands to 1.
TEST(Screening, SumsFlatRowsToOne) {
  constexpr int64_t kCount = 4096;
  Rng rng(6);
  for (const Isa level : runnable_isas()) {
    const AtIsa at(level);
    for (const double alpha : {1.2, 1.3, 1.4, 1.5, 2.0}) {
      const EntmaxPower power(alpha);
      for (const double deviation : {0.003, 0.01, 0.02, 0.03, 0.05, 0.1, 0.3}) {
        std::vector<float> values(kCount + 16);
        for (int64_t i = 0; i < kCount; ++i)
          values[static_cast<size_t>(i)] = static_cast<float>(deviation * rng.normal());
        const float top = *std::max_element(values.begin(), values.begin() + kCount);
        const EntmaxScores row = {.values = values.data(), .count = kCount, .top = top};
        const float root = screen_ops().entmax_root(power, row);
        screen_ops().entmax_weights(power, row, root, 1);
        const double total = std::accumulate(values.begin(), values.begin() + kCount, 0.0);
        // Weights are summed in four lanes at least.
        EXPECT_NEAR(total, 1, kCount / 4 * 0x1p-24) << name(level) << " alpha " << alpha << " deviation " << deviation;
      }
    }
  }
}

// mu comes nearer to c than float tells: for alpha = 8 and 1,000 scores, its base is 1e-21.
TEST(Screening, WeighsManyEqualScores) {
  for (const Isa level : runnable_isas()) {
    const AtIsa at(level);
    for (const double alpha : {1.5, 2.0, 2.001, 3.14, 8.0, 64.0}) {
      const EntmaxPower power(alpha);
      for (const int64_t count : {2, 1000, 4000}) {
        std::vector<float> values(static_cast<size_t>(count) + 16, 0.5F);
        const EntmaxScores row = {.values = values.data(), .count = count, .top = 0.5F};
        const float root = screen_ops().entmax_root(power, row);
        screen_ops().entmax_weights(power, row, root, screen_ops().entmax_blend(power, row, root));
        const auto keys = static_cast<double>(count);
        const double near = 0x1p-24 * keys + 0x1p-20;  // what adding up takes
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_NEAR(values[static_cast<size_t>(i)] * keys, 1, near)
              << name(level) << " alpha " << alpha << " count " << count;
        }
      }
    }
  }
}

// ---- hard rows: small whole numbers, times powers of two, so that scores are exact and ties are ties ----

struct Hard {
  const char* name;
  double q_power, k_power;
  std::function<double(Rng&, int64_t row, int64_t i)> key;
};

double small_integer(Rng& rng) { return static_cast<double>(rng.below(7)) - 3; }

const std::vector<Hard>& hard_kinds() {
  const auto any = [](Rng& rng, int64_t, int64_t) { return small_integer(rng); };
  static const std::vector<Hard> kKinds = {
      {"many ties", 0, -3, any},
      {"all keys equal", 0, -3, [](Rng&, int64_t, int64_t i) { return static_cast<double>(i % 3) - 1; }},
      {"keys in turn", 0, -3,
       [](Rng&, int64_t row, int64_t i) { return static_cast<double>((row % 40 + 3 * i) % 7) - 3; }},
      {"rising", 0, -8, [](Rng&, int64_t row, int64_t i) { return i == 0 ? static_cast<double>(row) : 0; }},
      {"falling", 0, -8, [](Rng&, int64_t row, int64_t i) { return i == 0 ? static_cast<double>(-row) : 0; }},
      {"a large shared vector", 0, -3, [](Rng& rng, int64_t, int64_t) { return 8192 + small_integer(rng); }},
      {"huge", 60, 40, any},
      {"tiny", -100, -3, any},
      {"denormal", -140, 0, any},
      {"too small for a product", -100, -100, any},
      // Its block is the first: the others' keys are nothing beside it.
      {"one far below", 0, -93,
       [](Rng& rng, int64_t row, int64_t i) {
         return row != 1 ? small_integer(rng) : i == 0 ? -std::ldexp(1.0, 126) : 0;
       }},
  };
  return kKinds;
}

struct HardProblem {
  AttentionProblem problem;
  Inputs inputs;
};

HardProblem hard_problem(const char* spec, const Hard& hard, AttentionKind kind, const std::vector<int64_t>& lengths) {
  HardProblem out;
  AttentionProblem& p = out.problem;
  p.spec = parse_attention(spec);
  p.kind = kind;
  p.num_heads = 2;
  p.head_dim = 17;
  p.needs_backward = true;
  int64_t tokens = 0;
  for (const int64_t n : lengths) {
    p.sequences.push_back({tokens, n, tokens, n});
    tokens += n;
  }
  Rng rng(11);
  Inputs& in = out.inputs;
  for (Array* a : {&in.q, &in.k, &in.v, &in.grad_out}) *a = Array(DType::kFloat32, Layout::kPadded, tokens, 2, 17);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 0; i < 17; ++i) {
        in.q.set(t, h, i,
                 std::ldexp(i == 0 ? 1 + static_cast<double>(rng.below(3)) : small_integer(rng),
                            static_cast<int>(hard.q_power)));
        in.k.set(t, h, i, std::ldexp(hard.key(rng, t, i), static_cast<int>(hard.k_power)));
        in.v.set(t, h, i, rng.normal());
        in.grad_out.set(t, h, i, rng.normal());
      }
    }
  }
  in.alpha = {1.5F, 1.5F};
  return out;
}

// Weights are at most 1 and sum to 1, so an output lies within max |v| < 6; a float sum of n terms is off by less than
// n 2^-24 of the sum of magnitudes, and exact scores carry no error of their own. Gradients are such sums times q, k.
// Relative to the largest value, or to the least that the terms of a sum reach.
double worst_error(const Array& got, const std::vector<double>& right, const Sequence& s, int64_t head,
                   double term = 0) {
  double worst = 0, largest = term;
  for (const double x : right) largest = std::max(largest, std::abs(x));
  for (int64_t t = 0; t < s.q_length; ++t) {
    for (int64_t i = 0; i < got.width(); ++i) {
      const double expected = right[static_cast<size_t>(t * got.width() + i)];
      const double error = std::abs(got.get(s.q_begin + t, head, i) - expected) / largest;
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}

// The greatest derivative of a weight in its score, over rows of 600 keys: entmax's is p^(2 - alpha).
double greatest_derivative(const Transform& transform) {
  const auto* entmax = std::get_if<Entmax>(&transform);
  return entmax != nullptr && entmax->alpha > 2 ? std::pow(600, entmax->alpha - 2) : 1;
}

void check_hard(const Kernel& kernel, const char* spec, const Hard& hard, AttentionKind kind) {
  const HardProblem h = hard_problem(spec, hard, kind, {600});
  const Transform& transform = h.problem.spec.transform;
  OracleInput one = testing_suite::one_head(h.problem, h.inputs, 0, 1);
  // Products below the least float are zero, and their scores tie.
  const bool vanishes = hard.q_power + hard.k_power < -150;
  if (vanishes) one.q.assign(one.q.size(), 0);
  const OracleOutput right = oracle_forward(one);
  const OracleGradients grads =
      oracle_backward(one, right, testing_suite::cotangents_of(h.problem, h.inputs, 0, 1).out);
  const Sequence& s = h.problem.sequences[0];
  const double tolerance = 600 * 0x1p-24 * 4, derivative = greatest_derivative(transform);
  SerialExecutor serial;
  for (const Isa level : runnable_isas()) {
    const AtIsa at(level);
    const Results got = testing_suite::run_kernel(kernel, h.problem, h.inputs, Layout::kPacked, serial);
    const std::string what = cat(spec, ", ", hard.name, ", kind ", static_cast<int>(kind), ", ", name(level));
    EXPECT_LT(worst_error(got.out, right.out, s, 1), tolerance) << what;
    // Where a score ties with the edge of its support, the gradient is undecided; and one that underflows is lost.
    if (std::holds_alternative<Sparsemax>(transform) || vanishes) continue;
    EXPECT_LT(worst_error(got.grad_v, grads.v, s, 1), tolerance) << what;
    // A gradient of scores is a small difference of large values: sums of products of 17 terms beside it.
    if (hard.q_power > 0) continue;  // one weight is 1 there: all that remains of the difference is its rounding
    const double q_term = derivative * std::exp2(hard.q_power), k_term = derivative * std::exp2(hard.k_power);
    EXPECT_LT(worst_error(got.grad_q, grads.q, s, 1, k_term), 17 * tolerance) << what;
    EXPECT_LT(worst_error(got.grad_k, grads.k, s, 1, q_term), 17 * tolerance) << what;
  }
}

TEST(Screening, TakesHardRows) {
  for (const Hard& hard : hard_kinds()) {
    for (const AttentionKind kind : {AttentionKind::kSelf, AttentionKind::kCausal}) {
      check_hard(kTopkKernel, "topk(8)", hard, kind);
      check_hard(kTopkKernel, "topk(5,keep=window(6))", hard, kind);
      for (const char* spec : {"sparsemax", "entmax(1.5)", "entmax(2.5)"}) check_hard(kEntmaxKernel, spec, hard, kind);
    }
  }
}

bool same_bits(const Array& a, const Array& b, int64_t begin, int64_t length) {
  for (int64_t t = begin; t < begin + length; ++t) {
    for (int64_t h = 0; h < a.heads(); ++h) {
      for (int64_t i = 0; i < a.width(); ++i) {
        if (a.bits(t, h, i) != b.bits(t, h, i)) return false;
      }
    }
  }
  return true;
}

// Lists that fit and lists that do not; threads, and a sequence alone.
TEST(Screening, GivesTheSameBitsForAnyThreadsAndCompany) {
  SerialExecutor serial;
  for (const char* spec : {"topk(8)", "window(300)+topk(20)", "entmax(1.3)", "sparsemax", "entmax(3)"}) {
    const Kernel& kernel = parse_attention(spec).select ? kTopkKernel : kEntmaxKernel;
    for (const Hard& hard : {hard_kinds()[0], hard_kinds()[1]}) {
      const HardProblem h = hard_problem(spec, hard, AttentionKind::kCausal, {530, 1, 300});
      const Results one = testing_suite::run_kernel(kernel, h.problem, h.inputs, Layout::kPacked, serial);
      for (const int threads : {2, 3}) {
        ThreadExecutor executor(threads);
        const Results several = testing_suite::run_kernel(kernel, h.problem, h.inputs, Layout::kPacked, executor);
        EXPECT_TRUE(same_bits(one.out, several.out, 0, 831) && same_bits(one.grad_q, several.grad_q, 0, 831) &&
                    same_bits(one.grad_k, several.grad_k, 0, 831) && same_bits(one.grad_v, several.grad_v, 0, 831))
            << spec << ", " << hard.name << ", " << threads << " threads";
      }
      for (const Sequence& s : h.problem.sequences) {
        AttentionProblem alone = h.problem;
        alone.sequences = {s};
        const Results single = testing_suite::run_kernel(kernel, alone, h.inputs, Layout::kPacked, serial);
        EXPECT_TRUE(same_bits(one.out, single.out, s.q_begin, s.q_length) &&
                    same_bits(one.grad_q, single.grad_q, s.q_begin, s.q_length) &&
                    same_bits(one.grad_k, single.grad_k, s.k_begin, s.k_length) &&
                    same_bits(one.grad_v, single.grad_v, s.k_begin, s.k_length))
            << spec << ", " << hard.name << ", " << s.q_length << " alone";
      }
    }
  }
}

TEST(Screening, SaysWhyItRefuses) {
  AttentionProblem problem;
  problem.spec = parse_attention("window(9)+relu");
  problem.dtype = DType::kFloat64;
  problem.head_dim = 300;
  EXPECT_EQ(join(kTopkKernel.refuses(problem), "; "),
            "float64 is left to the reference; head_dim 300 is above 256; the spec has no topk");
  EXPECT_EQ(join(kEntmaxKernel.refuses(problem), "; "),
            "float64 is left to the reference; head_dim 300 is above 256; "
            "the transform is neither sparsemax nor entmax");
}

}  // namespace
}  // namespace fovea::kernels
