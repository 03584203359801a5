#include "fovea/kernels/attention/cpu/narrow_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/kernels/attention/cpu/at_level_test.h"

// Steps over narrow keys and values against attention in double over the numbers that these stand for.
namespace fovea::kernels::narrow_rows_test {
namespace {

std::vector<float> normals(int64_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> all(static_cast<size_t>(count));
  for (float& x : all) x = static_cast<float>(rng.normal());
  return all;
}

template <class Work>
void at_every_level(const Work& work) {
  for (const Isa level : runnable_isas()) {
    SCOPED_TRACE(name(level));
    const AtIsa at(level);
    work();
  }
}

double wide(uint16_t bits) {
  const uint32_t whole = uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &whole, sizeof value);
  return value;
}

// A cache of some tokens for both types: [tokens, H, D] with heads in front, as its owners lay it out.
struct Cache {
  Cache(NarrowType of_type, int64_t token_count, int64_t head_count, int64_t dim)
      : type(of_type),
        tokens(token_count),
        heads(head_count),
        width(dim),
        halves(static_cast<size_t>(tokens * heads * width)),
        bytes(halves.size()),
        steps(static_cast<size_t>(tokens * heads), -1) {}

  NarrowArray<void, float> rows() {
    void* data = type == NarrowType::kInt8 ? static_cast<void*>(bytes.data()) : halves.data();
    return {type, {data, width, tokens * width}, {type == NarrowType::kInt8 ? steps.data() : nullptr, 1, tokens}};
  }
  NarrowRows read() {
    const auto all = rows();
    return {type,
            {all.data.data, all.data.token_stride, all.data.head_stride},
            {all.steps.data, all.steps.token_stride, all.steps.head_stride}};
  }
  double at(int64_t token, int64_t head, int64_t i) const {
    const auto place = static_cast<size_t>((head * tokens + token) * width + i);
    return type == NarrowType::kInt8 ? double{steps[static_cast<size_t>(head * tokens + token)]} * bytes[place]
                                     : wide(halves[place]);
  }

  NarrowType type;
  int64_t tokens, heads, width;
  std::vector<uint16_t> halves;
  std::vector<int8_t> bytes;
  std::vector<float> steps;
};

// rows [count, H, D] to the tokens first, first + 1, ...
void pack(const std::vector<float>& rows, Cache& cache, int64_t first, Executor& executor) {
  const int64_t each = cache.heads * cache.width;
  pack_narrow_rows({.rows = {rows.data(), each, cache.width},
                    .num_heads = cache.heads,
                    .head_dim = cache.width,
                    .count = std::ssize(rows) / each,
                    .first = first,
                    .to = cache.rows()},
                   executor);
}

TEST(NarrowRows, AreNearestNumbersAtEveryLevel) {
  for (const NarrowType type : {NarrowType::kBFloat16, NarrowType::kInt8}) {
    const int64_t heads = 2, width = 37, count = 5;
    const std::vector<float> rows = normals(count * heads * width, 3);
    at_every_level([&] {
      Cache cache(type, 9, heads, width);
      SerialExecutor executor;
      pack(rows, cache, 2, executor);
      for (int64_t t = 0; t < count; ++t) {
        for (int64_t h = 0; h < heads; ++h) {
          double top = 0;
          for (int64_t i = 0; i < width; ++i)
            top = std::max(top, std::abs(double{rows[static_cast<size_t>((t * heads + h) * width + i)]}));
          for (int64_t i = 0; i < width; ++i) {
            const double exact = rows[static_cast<size_t>((t * heads + h) * width + i)];
            // Half a step, and a float's rounding of the step and of its inverse.
            const double most = type == NarrowType::kInt8 ? top / 254 * (1 + 1e-4) : std::abs(exact) / 256;
            EXPECT_LE(std::abs(cache.at(t + 2, h, i) - exact), most);
          }
        }
      }
      if (type == NarrowType::kInt8) {
        EXPECT_EQ(cache.steps[0], -1) << "a token before the first is not written";
      }
    });
  }
}

struct Case {
  int64_t heads, share, width;
  std::vector<int64_t> keys;  // of each sequence
};

std::vector<float> attend(const Case& c, const std::vector<float>& q, Cache& keys, Cache& values, Executor& executor) {
  std::vector<int64_t> begins, lengths = c.keys;
  int64_t next = 1;  // a token before all sequences belongs to none
  for (const int64_t count : c.keys) begins.push_back(next), next += count;
  std::vector<float> out(q.size());
  const std::vector<int64_t> not_finite = attend_narrow_rows({.q = {q.data(), c.heads * c.width, c.width},
                                                              .out = {out.data(), c.heads * c.width, c.width},
                                                              .keys = keys.read(),
                                                              .values = values.read(),
                                                              .begins = begins.data(),
                                                              .lengths = lengths.data(),
                                                              .count = std::ssize(lengths),
                                                              .num_heads = c.heads,
                                                              .head_dim = c.width,
                                                              .share = c.share,
                                                              .scale = 0.3F},
                                                             executor);
  for (int64_t b = 0; b < std::ssize(lengths); ++b) {
    const auto row = out.begin() + b * c.heads * c.width;
    const bool is_finite = std::all_of(row, row + c.heads * c.width, [](float x) { return std::isfinite(x); });
    EXPECT_EQ(std::ranges::count(not_finite, b), is_finite ? 0 : 1) << "sequence " << b;
  }
  return out;
}

void expect_attention(const Case& c, const std::vector<float>& q, const Cache& keys, const Cache& values,
                      const std::vector<float>& out) {
  int64_t begin = 1;
  for (size_t b = 0; b < c.keys.size(); begin += c.keys[b++]) {
    for (int64_t h = 0; h < c.heads; ++h) {
      const auto row = (static_cast<int64_t>(b) * c.heads + h) * c.width;
      std::vector<double> weights;
      double most = -1e300, total = 0;
      for (int64_t k = 0; k < c.keys[b]; ++k) {
        double score = 0;
        for (int64_t i = 0; i < c.width; ++i)
          score += double{q[static_cast<size_t>(row + i)]} * keys.at(begin + k, h / c.share, i);
        weights.push_back(score * double{0.3F}), most = std::max(most, weights.back());
      }
      for (double& weight : weights) total += weight = std::exp(weight - most);
      for (int64_t i = 0; i < c.width; ++i) {
        double want = 0, size = 0;
        for (int64_t k = 0; k < c.keys[b]; ++k) {
          const double term = weights[static_cast<size_t>(k)] / total * values.at(begin + k, h / c.share, i);
          want += term, size += std::abs(term);
        }
        // A score has an error of about width / 4 roundings of its size, below 40 here, which its weight multiplies.
        EXPECT_NEAR(out[static_cast<size_t>(row + i)], want, 4e-5 * size + 1e-12)
            << "sequence " << b << " head " << h << " element " << i;
      }
    }
  }
}

TEST(NarrowRows, StepsAreSoftmaxAttentionAtEveryLevel) {
  const std::vector<Case> cases = {
      {2, 1, 64, {700, 1, 33}}, {4, 2, 37, {5, 0, 1100}}, {3, 3, 32, {513}}, {1, 1, 256, {40}}, {2, 1, 8, {17, 16}}};
  for (const Case& c : cases) {
    for (const NarrowType type : {NarrowType::kBFloat16, NarrowType::kInt8}) {
      int64_t tokens = 2;
      for (const int64_t count : c.keys) tokens += count;
      const int64_t key_heads = c.heads / c.share;
      const std::vector<float> q = normals(std::ssize(c.keys) * c.heads * c.width, 1);
      const std::vector<float> k = normals(tokens * key_heads * c.width, 2), v = normals(std::ssize(k), 3);
      at_every_level([&] {
        Cache keys(type, tokens, key_heads, c.width), values(type, tokens, key_heads, c.width);
        SerialExecutor serial;
        ThreadExecutor threads(3);
        pack(k, keys, 0, threads), pack(v, values, 0, serial);
        const std::vector<float> out = attend(c, q, keys, values, serial);
        expect_attention(c, q, keys, values, out);
        EXPECT_EQ(out, attend(c, q, keys, values, threads)) << "threads change no bit";
      });
    }
  }
}

// A number that is not finite makes its row's reader NaN, and no other.
TEST(NarrowRows, PassOnWhatIsNotFinite) {
  for (const NarrowType type : {NarrowType::kBFloat16, NarrowType::kInt8}) {
    const Case c{1, 1, 16, {3, 3}};
    const std::vector<float> q = normals(32, 1);
    std::vector<float> k = normals(8 * 16, 2);
    const std::vector<float> v = normals(8 * 16, 3);
    k[5 * 16 + 3] = std::numeric_limits<float>::quiet_NaN();  // token 5 is of the second sequence
    at_every_level([&] {
      Cache keys(type, 8, 1, 16), values(type, 8, 1, 16);
      SerialExecutor executor;
      pack(k, keys, 0, executor), pack(v, values, 0, executor);
      const std::vector<float> out = attend(c, q, keys, values, executor);
      for (int64_t i = 0; i < 16; ++i) {
        EXPECT_TRUE(std::isfinite(out[static_cast<size_t>(i)]));
        EXPECT_TRUE(std::isnan(out[static_cast<size_t>(16 + i)]));
      }
    });
  }
}

}  // namespace
}  // namespace fovea::kernels::narrow_rows_test
