#include "fovea/ops/rotary.h"

#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "fovea/base/test_message.h"
#include "fovea/ops/step.h"
#include "fovea/ops/step_test.h"

namespace fovea::ops::rotary_test {
namespace {

using testing::expect_as_good;
using testing::expect_same_on_all_threads;
using testing::Function;
using testing::normal;
using testing::Tensors;
using testing::words;

// Su et al. (2021), section 3.4.2, as complex numbers: (x_i + j x_(i + D/2)) e^(j position base^(-2 i / D)).
at::Tensor definition(const at::Tensor& x, const at::Tensor& positions, double base) {
  const int64_t half = x.size(2) / 2;
  const at::Tensor angles = at::empty({x.size(0), 1, half}, at::kDouble);
  for (int64_t t = 0; t < x.size(0); ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const double rate = std::exp(-2.0 * static_cast<double>(i) / static_cast<double>(x.size(2)) * std::log(base));
      angles.data_ptr<double>()[t * half + i] = static_cast<double>(positions[t].item<int64_t>()) * rate;
    }
  }
  const at::ScalarType type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor wide = x.to(type), turns = at::polar(at::ones_like(angles), angles);
  const at::Tensor out = at::complex(wide.slice(2, 0, half), wide.slice(2, half)) *
                         turns.to(type == at::kDouble ? at::kComplexDouble : at::kComplexFloat);
  return at::cat({at::real(out), at::imag(out)}, 2).to(x.scalar_type());
}

TEST(Rotary, IsItsDefinition) {
  for (const auto& [tokens, heads, dim] :
       {std::array<int64_t, 3>{1, 1, 2}, {5, 3, 10}, {66, 2, 64}, {33, 3, 34}, {7, 1, 130}, {4, 2, 0}}) {
    for (const double base : {10000.0, 500.0}) {
      const at::Tensor positions = words(tokens, 3000, 2);
      const Function ours = [&](const Tensors& in) { return Tensors{rotary(in[0], positions, base)}; };
      const Function plain = [&](const Tensors& in) { return Tensors{definition(in[0], positions, base)}; };
      if (dim > 0) expect_as_good(ours, plain, {normal({tokens, heads, dim}, 1)});
      EXPECT_EQ(rotary(at::ones({tokens, heads, dim}), positions, base).sizes(), at::IntArrayRef({tokens, heads, dim}));
    }
  }
}

TEST(Rotary, TakesAnyStridesAndGivesContiguousHeads) {
  const at::Tensor positions = words(37, 500, 2);
  const auto with = [&](auto turn) {
    return [&, turn](const Tensors& in) {
      return Tensors{turn(in[0].select(1, 1), positions, 10000), turn(in[1].transpose(0, 2), positions, 10000)};
    };
  };
  const auto ours = [](const at::Tensor& x, const at::Tensor& places, double base) { return rotary(x, places, base); };
  expect_as_good(with(ours), with(definition), {normal({37, 3, 4, 18}, 1), normal({18, 3, 37}, 3)});
  EXPECT_TRUE(rotary(at::ones({18, 3, 37}).transpose(0, 2), positions).is_contiguous());
}

// The purpose of the embedding: scores depend on distances alone.
TEST(Rotary, ScoresAreOfDistances) {
  const at::Tensor q = normal({1, 1, 32}, 1).to(at::kFloat), k = normal({1, 1, 32}, 2).to(at::kFloat);
  const auto score = [&](int64_t query, int64_t key) {
    const auto at = [](int64_t position) { return at::full({1}, position, at::kLong); };
    return (rotary(q, at(query)) * rotary(k, at(key))).sum().item<double>();
  };
  // Products of numbers below ten, with cosines rounded to 2^-25.
  EXPECT_NEAR(score(7, 3), score(1007, 1003), 1e-5);
  EXPECT_NEAR(score(0, 0), (q * k).sum().item<double>(), 1e-5);
  EXPECT_GT(std::abs(score(7, 3) - score(7, 4)), 1e-3);
}

TEST(Rotary, OfATokenDoesNotDependOnTheOthersNorOnTheTable) {
  const at::Tensor x = normal({40, 2, 26}, 1).to(at::kFloat), positions = words(40, 300, 3);
  const at::Tensor before = rotary(x, positions, 777);
  rotary(x.slice(0, 0, 1), at::full({1}, 5000, at::kLong), 777);  // the table grows
  EXPECT_TRUE(at::equal(before, rotary(x, positions, 777)));
  for (const int64_t t : {0, 31, 39}) {
    EXPECT_TRUE(at::equal(before.slice(0, t, t + 1), rotary(x.slice(0, t, t + 1), positions.slice(0, t, t + 1), 777)));
  }
}

// Linear's result is what heads are split from, and linear does not keep it.
Function heads_of_projection(const at::Tensor& positions, int64_t heads, bool fused) {
  return [=](const Tensors& in) -> Tensors {
    const int64_t all = in[1].size(0) / 10;
    const at::Tensor stacked = ops::linear(in[0], in[1], std::nullopt).view({in[0].size(0), all, 10});
    if (fused) {
      const RotaryHeads parts = rotary_heads(stacked, heads, positions);
      return {parts.q, parts.k, parts.v};
    }
    const int64_t others = (all - heads) / 2;
    return {definition(stacked.slice(1, 0, heads), positions, 10000),
            definition(stacked.slice(1, heads, heads + others), positions, 10000), stacked.slice(1, heads + others)};
  };
}

TEST(RotaryHeads, TurnQueriesAndKeysOfAProjection) {
  const at::Tensor positions = words(45, 900, 2);
  for (const int64_t others : {3, 1}) {  // as many heads of keys as of queries; one for all three
    const Tensors inputs = {normal({45, 12}, 1), normal({(3 + 2 * others) * 10, 12}, 3)};
    const Function ours = heads_of_projection(positions, 3, true), plain = heads_of_projection(positions, 3, false);
    expect_as_good(ours, plain, inputs);
    for (const size_t used : {0, 1, 2}) {  // the others have no gradient then
      expect_as_good([&](const Tensors& in) { return Tensors{ours(in)[used]}; },
                     [&](const Tensors& in) { return Tensors{plain(in)[used]}; }, inputs);
    }
    const at::Tensor many = words(700, 900, 2);
    expect_same_on_all_threads(heads_of_projection(many, 3, true), {normal({700, 12}, 1), inputs[1]});
  }
}

TEST(RotaryHeads, LieInTheProjectionAndTakeNoMemory) {
  const at::Tensor stacked = normal({6, 9, 4}, 1).to(at::kFloat), before = stacked.clone(), positions = words(6, 50, 2);
  const RotaryHeads parts = rotary_heads(stacked, 3, positions);
  EXPECT_EQ(parts.q.data_ptr(), stacked.data_ptr());
  EXPECT_TRUE(at::equal(parts.q, rotary(before.slice(1, 0, 3), positions)));
  EXPECT_TRUE(at::equal(parts.k, rotary(before.slice(1, 3, 6), positions)));
  EXPECT_TRUE(at::equal(parts.v, before.slice(1, 6)));
}

TEST(RotaryHeads, AreRefusedWhereBackwardReadsTheProjection) {
  const at::Tensor x = normal({6, 9, 4}, 1).to(at::kFloat).requires_grad_();
  const at::Tensor stacked = x.exp();  // keeps its result for backward
  const RotaryHeads parts = rotary_heads(stacked, 3, words(6, 50, 2));
  EXPECT_ANY_THROW((parts.q + parts.k + parts.v).sum().backward());
}

TEST(Rotary, RefusesWhatItCannotTake) {
  const at::Tensor positions = at::zeros({2}, at::kLong), x = at::ones({2, 3, 4}).requires_grad_();
  EXPECT_EQ(message_of([&] {
              rotary(at::ones({2, 3, 5}), positions);
            }),
            "rotary: got [2, 3, 5]; expected [tokens, heads, head_dim] with an even head_dim");
  EXPECT_EQ(message_of([&] { rotary(x, at::zeros({3}, at::kLong)); }),
            "rotary: got positions [3] for 2 tokens; expected a position per token, int64 on the CPU");
  EXPECT_EQ(message_of([&] { rotary(x, at::full({2}, -1, at::kLong)); }),
            "rotary: got position -1 of token 0; expected 0 to 4194303");
  EXPECT_EQ(message_of([&] { rotary(x, positions, 0); }), "rotary: got base 0; expected a number above 0");
  EXPECT_EQ(message_of([&] { rotary_heads(x, 2, positions); }),
            "rotary_heads: got 2 heads of q in 3; expected as many heads of k as of v beside them");
  const auto second = [&](const at::Tensor& out) {
    torch::autograd::grad({out.sum()}, {x}, {}, true, /*create_graph=*/true);
  };
  EXPECT_EQ(message_of([&] { second(rotary(x, positions)); }),
            "rotary: has no second derivatives; call backward() or grad() without create_graph");
  EXPECT_EQ(message_of([&] { second(rotary_heads(x * 1, 1, positions).q); }),
            "rotary_heads: has no second derivatives; call backward() or grad() without create_graph");
}

}  // namespace
}  // namespace fovea::ops::rotary_test
