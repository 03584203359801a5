#include "fovea/kernels/attention/cpu/key_screen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"
#include "fovea/kernels/attention/cpu/candidates.h"
#include "fovea/kernels/attention/cpu/rows.h"

// Steps of decoding with a screen give the bits that they give without.
namespace fovea::kernels::key_screen_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Case {
  std::string spec = "topk(8)";
  int64_t heads = 2, share = 1, dim = 64;
  std::vector<int64_t> keys = {700};  // of each sequence
  float scale = 0.125F;
  bool is_bf16 = false, is_listed = false;
};

std::string describe(const Case& c) {
  return c.spec + " heads " + std::to_string(c.heads) + " share " + std::to_string(c.share) + " dim " +
         std::to_string(c.dim) + " keys " + std::to_string(c.keys[0]) + " scale " + std::to_string(c.scale) +
         (c.is_bf16 ? " bf16" : "") + (c.is_listed ? " listed" : "");
}

// Floats, or bfloat16 of the same values cut off.
std::vector<uint16_t> halves(const std::vector<float>& x) {
  std::vector<uint16_t> out;
  for (const float value : x) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    out.push_back(static_cast<uint16_t>(bits >> 16));
  }
  return out;
}

struct Step {
  explicit Step(const Case& c, uint64_t seed = 1) : is(c) {
    problem.spec = parse_attention(c.spec);
    problem.kind = AttentionKind::kCausal;
    problem.dtype = c.is_bf16 ? DType::kBFloat16 : DType::kFloat32;
    problem.num_heads = c.heads;
    problem.head_dim = c.dim;
    problem.keys = {c.share, 0};
    problem.keys_listed = c.is_listed;
    int64_t queries = 0;
    for (const int64_t keys : c.keys) {
      problem.sequences.push_back({queries++, 1, tokens, keys});
      tokens += keys;
    }
    Rng rng(seed);
    const auto fill = [&](std::vector<float>& to, int64_t rows, int64_t heads) {
      for (int64_t i = 0; i < rows * heads * c.dim; ++i) to.push_back(static_cast<float>(rng.normal()));
    };
    fill(q, queries, c.heads), fill(k, tokens, key_heads()), fill(v, tokens, key_heads());
    places.resize(static_cast<size_t>(tokens));
    std::iota(places.begin(), places.end(), int64_t{0});
    if (c.is_listed) std::reverse(places.begin(), places.end());
    centre.assign(static_cast<size_t>(key_heads() * c.dim), 0.1F);
  }

  int64_t key_heads() const { return is.heads / is.share; }
  float* key(int64_t token, int64_t head = 0) { return k.data() + (token * key_heads() + head) * is.dim; }

  std::vector<float> run(bool with_screen, Executor& executor) const {
    const std::vector<uint16_t> q16 = halves(q), k16 = halves(k), v16 = halves(v);
    const int64_t bytes = key_screen_bytes(is.dim), heads = key_heads(), count = tokens;
    std::vector<uint8_t> rows(static_cast<size_t>(bytes * heads * count));
    std::vector<float> steps(static_cast<size_t>(heads * count)), extents(static_cast<size_t>(3 * heads));
    std::vector<float> result(q.size(), -1);
    std::vector<uint16_t> result16(q.size());
    const auto in = [&](const std::vector<float>& x, const std::vector<uint16_t>& x16, int64_t of) {
      return Rows<const void>{is.is_bf16 ? static_cast<const void*>(x16.data()) : x.data(), of * is.dim, is.dim};
    };
    AttentionForward f;
    f.q = in(q, q16, is.heads), f.k = in(k, k16, heads), f.v = in(v, v16, heads);
    f.out = {is.is_bf16 ? static_cast<void*>(result16.data()) : result.data(), is.heads * is.dim, is.dim};
    f.scale = is.scale;
    if (is.is_listed) f.key_tokens = places.data();
    if (with_screen) {
      pack_key_screen({.keys = packed == nullptr ? f.k : in(*packed, k16, heads),
                       .dtype = problem.dtype,
                       .num_heads = heads,
                       .head_dim = is.dim,
                       .count = count,
                       .centre = {centre.data(), 0, is.dim},
                       .rows = {rows.data(), bytes, bytes * count},
                       .steps = {steps.data(), 1, count},
                       .extents = extents.data()},
                      executor);
      f.screen = {{rows.data(), bytes, bytes * count}, {steps.data(), 1, count}, extents.data()};
    }
    kRowsKernel.forward(problem, f, executor);
    if (is.is_bf16) std::copy(result16.begin(), result16.end(), result.begin());
    return result;
  }

  Case is;
  AttentionProblem problem;
  int64_t tokens = 0;
  std::vector<float> q, k, v, centre;
  const std::vector<float>* packed = nullptr;  // what the screen is a copy of, instead of k
  std::vector<int64_t> places;
};

testing::AssertionResult have_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof a[i]) == 0 || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    return testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
  }
  return testing::AssertionSuccess();
}

void expect_same(const Step& step, const std::string& what) {
  SerialExecutor serial;
  ThreadExecutor threads(3);
  const std::vector<float> without = step.run(false, serial);
  EXPECT_TRUE(have_same_bits(step.run(true, serial), without)) << describe(step.is) << ": " << what;
  EXPECT_TRUE(have_same_bits(step.run(true, threads), without)) << describe(step.is) << ": " << what << ", threads";
}

class KeyScreen : public LevelTest {};

TEST_P(KeyScreen, NormalKeys) {
  for (const int64_t dim : {5, 16, 32, 33, 64, 80, 96, 128, 257}) {
    for (const bool is_listed : {false, true}) {
      for (const bool is_bf16 : {false, true}) {
        expect_same(Step({.dim = dim, .keys = {700, 256, 3, 1001}, .is_bf16 = is_bf16, .is_listed = is_listed}),
                    "normal keys");
      }
    }
  }
  for (const char* spec :
       {"topk(1)", "topk(32)", "topk(87)", "topk(88)", "topk(5000)", "topk(8)+relu", "topk(8)+gelu",
        "topk(8)+leaky-relu(0.1)", "topk(8)+sparsemax", "topk(8)+entmax(1.5)", "window(64)+topk(8)"}) {
    expect_same(Step({.spec = spec, .heads = 4, .share = 2}), "normal keys");
  }
  for (const float scale : {-0.3F, 0.0F, 1e-30F, 1e30F, 5.0F}) expect_same(Step({.scale = scale}), "normal keys");
  for (const int64_t keys : {256, 257, 271, 272, 4096, 4097, 9000}) expect_same(Step({.keys = {keys}}), "normal keys");
}

// The screen knows nothing of keys far from the others; what it leaves must not depend on them.
TEST_P(KeyScreen, HardKeys) {
  const std::vector<float> odd = {std::nanf(""), kInfinity, -kInfinity, 3e38F, -3e38F, 1e30F, 1e-30F, 1e-45F, 0.0F};
  for (const float value : odd) {
    for (const int64_t every : {1, 7, 350}) {
      Step step({.dim = 32});
      for (int64_t token = 0; token < step.tokens; token += every) step.key(token, 1)[token % 32] = value;
      expect_same(step, "elements " + std::to_string(value) + " every " + std::to_string(every));
      for (int64_t token = 0; token < step.tokens; token += every) std::fill_n(step.key(token), 32, value);
      expect_same(step, "keys of " + std::to_string(value) + " every " + std::to_string(every));
    }
    Step step({.dim = 32});
    step.q[3] = value;
    expect_same(step, "a query with " + std::to_string(value));
    std::fill(step.q.begin(), step.q.end(), value);
    expect_same(step, "a query of " + std::to_string(value));
    step = Step({.dim = 32});
    step.v[12 * 32] = step.v[500 * 32 + 3] = value;
    expect_same(step, "values with " + std::to_string(value));
  }
}

TEST_P(KeyScreen, TiesAndNearTies) {
  Step step({.spec = "topk(16)", .keys = {900}});
  for (int64_t token = 0; token < step.tokens; ++token) std::copy_n(step.key(0), 64, step.key(token));
  expect_same(step, "equal keys");
  for (int64_t token = 0; token < step.tokens; ++token) {
    // Neighbouring floats: which key is selected hangs on the last bit of its score.
    for (int64_t i = 0; i < token % 5; ++i)
      step.key(token)[token % 64] = std::nextafter(step.key(token)[token % 64], 9.0F);
  }
  expect_same(step, "keys that differ in the last bit");
  step.centre.assign(step.k.begin(), step.k.begin() + 2 * 64);
  expect_same(step, "keys that differ from the centre in the last bit");
  Rng rng(7);
  for (int64_t token = 0; token < step.tokens; ++token) {
    const auto size = static_cast<float>(std::exp2(static_cast<double>(rng.below(100)) - 50));
    for (int64_t i = 0; i < 128; ++i) step.key(token)[i] = static_cast<float>(rng.normal()) * size;
  }
  expect_same(step, "keys of many sizes");
  for (float& x : step.q) x *= 1e-20F;
  expect_same(step, "a small query");
  for (float& x : step.k) x = x > 0 ? 1.0F : -1.0F;
  for (float& x : step.q) x = x > 0 ? 1.0F : -1.0F;
  expect_same(step, "whole scores with many ties");
}

// Random sizes of heads, selections and distributions, whose bounds must hold for every key.
TEST_P(KeyScreen, ManyDraws) {
  Rng rng(11);
  for (uint64_t draw = 0; draw < 60; ++draw) {
    const auto dim = static_cast<int64_t>(1 + rng.below(100)), keys = static_cast<int64_t>(256 + rng.below(1500));
    Step step({.spec = "topk(" + std::to_string(1 + rng.below(24)) + ")", .heads = 1, .dim = dim, .keys = {keys}},
              draw);
    const double power = 1 + static_cast<double>(rng.below(4));  // 2 and more: few elements are large
    for (std::vector<float>* x : {&step.q, &step.k}) {
      for (float& value : *x)
        value = std::copysign(static_cast<float>(std::pow(std::abs(double{value}), power)), value);
    }
    if (draw % 3 == 0) {  // a common part
      for (int64_t token = 0; token < keys; ++token) step.key(token)[0] += 40;
    }
    expect_same(step, "draw " + std::to_string(draw));
  }
}

// Keys whose error is as large as the bound allows, upwards for the best eight and downwards for a hundred that are
// nearly as good. In whole numbers the hundred are ahead, by a little less than twice the bound.
TEST_P(KeyScreen, ErrorsAtTheBound) {
  Step step({.heads = 1, .keys = {700}});
  std::fill(step.k.begin(), step.k.end(), 0.0F), std::fill(step.centre.begin(), step.centre.end(), 0.0F);
  const auto place = [](int64_t i) { return 300 + i; };
  // The query has no error, and what is lost of a key lies along it: 0.49 of 63 numbers, about 31.
  std::fill(step.q.begin(), step.q.end(), 1.0F);
  for (int64_t i = 0; i < 108; ++i) {
    const float lost = i < 8 ? 0.49F : -0.49F, sum = i < 8 ? 1000 : 1060;
    float* key = step.key(place(i));
    std::fill_n(key, 64, lost);
    key[0] = 127;
    for (int64_t j = 1; j < 64; ++j) key[j] += static_cast<float>((i + j) % 5);
    const float rest = sum + lost * 63 - std::accumulate(key, key + 64, 0.0F);
    for (int64_t j = 1; j < 64; ++j)
      key[j] += std::floor(rest / 63) + (j <= std::lround(rest - 63 * std::floor(rest / 63)) ? 1 : 0);
  }
  expect_same(step, "keys with errors");
  // The keys have no error, and lie along what is lost of the query.
  step.q[0] = 127;
  for (int64_t j = 1; j < 64; ++j) step.q[j] = (j % 2 == 0 ? 10.49F : -10.49F) - (j == 2 ? 60.0F : 0.0F);
  for (int64_t j = 4; j < 64; j += 2) step.q[j] = j % 4 == 0 ? -9.51F : 10.49F;
  for (int64_t j = 3; j < 64; j += 2) step.q[j] = j % 4 == 3 ? 9.51F : -10.49F;
  float whole = 0;
  for (int64_t j = 1; j < 64; ++j) whole += std::round(step.q[j]) * (j % 2 == 0 ? 1.0F : -1.0F);
  step.q[2] += -29 - whole;  // the sums of whole numbers: 127 (-29) and 127 29
  for (int64_t i = 0; i < 108; ++i) {
    float* key = step.key(place(i));
    for (int64_t j = 0; j < 64; ++j) key[j] = j == 0 ? 0.0F : (j % 2 == 0) == (i < 8) ? 127.0F : -127.0F;
  }
  expect_same(step, "a query with an error");
}

// Keys that are far from being selected are not read: NaN in their place changes nothing.
TEST_P(KeyScreen, ReadsCandidatesAlone) {
  Step step({.heads = 1, .keys = {3000}});
  SerialExecutor serial;
  const std::vector<float> clean = step.k, want = step.run(true, serial);
  std::vector<float> scores;
  for (int64_t token = 0; token < step.tokens; ++token) {
    scores.push_back(std::inner_product(step.q.begin(), step.q.end(), step.key(token), 0.0F));
  }
  std::vector<float> sorted = scores;
  std::ranges::sort(sorted, std::greater());
  int64_t poisoned = 0;
  for (int64_t token = 0; token < step.tokens; ++token) {
    if (scores[static_cast<size_t>(token)] > sorted[150]) continue;
    std::fill_n(step.key(token), 64, std::nanf(""));
    std::fill_n(step.v.begin() + token * 64, 64, std::nanf(""));
    ++poisoned;
  }
  step.packed = &clean;
  EXPECT_GT(poisoned, 2800);
  EXPECT_TRUE(have_same_bits(step.run(true, serial), want));
}

// Steps with a pattern need no screen: they read the pattern's keys alone, however long the cache.
TEST_P(KeyScreen, PatternsReadTheirKeysAlone) {
  for (const char* spec : {"window(64)", "blocks(64,3)", "window(64)+topk(8)", "dilated(16,4)"}) {
    Step step({.spec = spec, .heads = 1, .keys = {3000}});
    SerialExecutor serial;
    const std::vector<float> want = step.run(false, serial);
    const Sequence longer = {0, 1, 0, 30008};  // as far into its block as 3,000
    EXPECT_EQ(lower(step.problem, longer, 0).pairs, lower(step.problem, step.problem.sequences[0], 0).pairs) << spec;
    const Row row = row_of(step.problem, step.problem.sequences[0], 0);
    int64_t read = 0;
    for (int64_t token = 0; token < step.tokens; ++token) {
      if (contains(step.problem.spec.pairs(), row, token)) {
        ++read;
        continue;
      }
      std::fill_n(step.key(token), 64, std::nanf(""));
      std::fill_n(step.v.begin() + token * 64, 64, std::nanf(""));
    }
    EXPECT_TRUE(have_same_bits(step.run(false, serial), want)) << spec;
    EXPECT_LE(read, 256) << spec;
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, KeyScreen, testing::ValuesIn(runnable_isas()), level_title);

}  // namespace
}  // namespace fovea::kernels::key_screen_test
