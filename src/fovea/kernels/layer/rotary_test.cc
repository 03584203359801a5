#include "fovea/kernels/layer/rotary.h"

#include <array>

#include "fovea/kernels/layer/levels_test.h"

namespace fovea::kernels::rotary_test {
namespace {

using testing::at_every_level;
using testing::expect_close;
using testing::normals;

// Heads of some tokens with room between heads and between tokens.
struct Layout {
  int64_t tokens, heads, head_dim, head_stride, token_stride;
  int64_t count() const { return tokens * token_stride; }
};

struct Expected {
  std::vector<double> values, sizes;
};

// x where no head lies; elsewhere its pairs turned by `sign` times the angles.
Expected turned(const std::vector<double>& x, const Layout& at, const std::vector<int64_t>& positions, double sign) {
  Expected want{x, std::vector<double>(x.size())};
  const int64_t half = at.head_dim / 2;
  for (int64_t t = 0; t < at.tokens; ++t) {
    for (int64_t h = 0; h < at.heads; ++h) {
      for (int64_t i = 0; i < half; ++i) {
        const int64_t a = t * at.token_stride + h * at.head_stride + i, b = a + half;
        const double angle = sign * static_cast<double>(positions[t]) *
                             std::exp(-std::log(10000.0) * static_cast<double>(i) / static_cast<double>(half));
        want.values[a] = x[a] * std::cos(angle) - x[b] * std::sin(angle);
        want.values[b] = x[b] * std::cos(angle) + x[a] * std::sin(angle);
        want.sizes[a] = want.sizes[b] = std::abs(x[a]) + std::abs(x[b]);
      }
    }
  }
  return want;
}

template <class T>
void check_rotary(const Layout& at, Turn direction, Executor& executor) {
  const testing::Values<T> x = normals<T>(at.count(), 1);
  std::vector<int64_t> positions;
  for (int64_t t = 0; t < at.tokens; ++t) positions.push_back(t * 37 % 1000);
  const auto table = rotary_table(rotary_angles(at.head_dim, 10000), 1000);
  const Expected want = turned(x.exact, at, positions, direction == Turn::kForward ? 1 : -1);
  std::vector<T> out = x.kept, in_place = x.kept;
  for (std::vector<T>* to : {&out, &in_place}) {
    RotaryPass<T> job{.x = {to == &out ? x.kept.data() : to->data(), at.token_stride, at.head_stride},
                      .out = {to->data(), at.token_stride, at.head_stride},
                      .positions = positions.data(),
                      .angles = table->values.get()};
    job.tokens = at.tokens, job.heads = at.heads, job.head_dim = at.head_dim, job.turn = direction;
    rotate(job, executor);
    expect_close(*to, want.values, want.sizes);
  }
  EXPECT_EQ(out, in_place);
}

TEST(RotaryKernel, IsItsDefinitionAtEveryLevelInPlaceToo) {
  for (const Layout& layout : {Layout{1, 1, 2, 2, 2}, Layout{70, 3, 10, 13, 50}, Layout{40, 2, 64, 64, 128},
                               Layout{33, 1, 70, 70, 71}, Layout{300, 4, 66, 66, 4 * 66}}) {
    for (const Turn direction : {Turn::kForward, Turn::kBack}) {
      at_every_level([&] {
        SerialExecutor serial;
        ThreadExecutor threads(3);
        check_rotary<float>(layout, direction, serial);
        check_rotary<uint16_t>(layout, direction, serial);
        check_rotary<float>(layout, direction, threads);
      });
    }
  }
}

TEST(RotaryTable, RoundsTheAnglesOfDoubleAndKeepsItsRowsWhenItGrows) {
  const RotaryAngles angles = rotary_angles(6, 123);
  const auto small = rotary_table(angles, 1), large = rotary_table(angles, small->positions + 1);
  EXPECT_GT(large->positions, small->positions);
  EXPECT_EQ(rotary_table(angles, 1), large);
  EXPECT_TRUE(std::equal(small->values.get(), small->values.get() + 6 * small->positions, large->values.get()));
  for (int64_t p = 0; p < large->positions; ++p) {
    for (int64_t i = 0; i < 3; ++i) {
      // p / 123^(i / 3); pow, exp and the product round to 2^-53 of angles up to 1024
      const double angle = static_cast<double>(p) * std::exp(-std::log(123.0) * static_cast<double>(i) / 3);
      EXPECT_NEAR(large->values[p * 6 + i], std::cos(angle), 0x1p-25 + 1e-12);
      EXPECT_NEAR(large->values[p * 6 + 3 + i], std::sin(angle), 0x1p-25 + 1e-12);
    }
  }
}

}  // namespace
}  // namespace fovea::kernels::rotary_test
