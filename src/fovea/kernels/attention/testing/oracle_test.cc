#include "fovea/kernels/attention/testing/oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "fovea/spec/testing/random_spec.h"

namespace fovea::kernels::oracle_test {
namespace {

using Values = std::vector<double>;

Values normals(Rng& rng, int64_t count, double deviation = 1) {
  Values out;
  for (int64_t i = 0; i < count; ++i) out.push_back(deviation * rng.normal());
  return out;
}

OracleInput random_input(const AttentionSpec& spec, AttentionKind kind, Rng& rng, int64_t queries, int64_t keys) {
  OracleInput in;
  in.spec = spec;
  in.kind = kind;
  in.num_queries = queries;
  in.num_keys = keys;
  in.head_dim = 3;
  in.q = normals(rng, queries * 3);
  in.k = normals(rng, keys * 3);
  in.v = normals(rng, keys * 3);
  in.scale = 0.8;
  in.alpha = 1.35;
  in.stream = rng();
  if (rng.below(3) == 0)
    for (int64_t i = 0; i < queries * keys; ++i) in.factor.push_back(rng.below(4) == 0 ? 0 : 1.25);
  return in;
}

double loss(const OracleInput& in, const Values& grad, const Values& grad_sums = {}) {
  const OracleOutput output = oracle_forward(in);
  const double sums = std::inner_product(grad_sums.begin(), grad_sums.end(), output.sums.begin(), 0.0);
  return std::inner_product(output.out.begin(), output.out.end(), grad.begin(), sums);
}

// Terms of ranges that may be narrower than the offsets, lie beside them, or hold them all.
void draw_terms(OracleInput& in, Rng& rng) {
  const auto range = [&](OracleOffsets& of) {
    of.first = static_cast<int64_t>(rng.below(11)) - 8;
    of.count = 1 + static_cast<int64_t>(rng.below(8));
  };
  const auto draw = [&](OracleOffsets& of, int64_t rows, int64_t width) {
    range(of);
    of.values = normals(rng, rows * of.count * width);
  };
  if (rng.below(2) == 0) draw(in.terms.by_head, 1, 1);
  if (rng.below(2) == 0) draw(in.terms.by_query, in.num_queries, 1);
  if (rng.below(2) == 0) range(in.terms.sums);
  if (rng.below(2) != 0) return;
  draw(in.terms.rows, 1, in.head_dim);
  in.terms.queries = normals(rng, in.num_queries * in.head_dim);
}

// Central differences of the loss at `x` with two steps. A step that crosses a kink or a tie makes the two disagree:
// there the derivative is not defined within the step, and nothing is compared.
struct Difference {
  double value;
  bool smooth;
};
template <class Loss>
Difference difference(double& x, const Loss& value) {
  const double x0 = x;
  const auto at = [&](double step) {
    x = x0 + step;
    const double above = value();
    x = x0 - step;
    const double below = value();
    x = x0;
    return std::pair((above - below) / (2 * step), (above - 2 * value() + below) / step);
  };
  const auto [coarse, coarse_bend] = at(2e-5);
  const auto [fine, fine_bend] = at(1e-5);
  const double size = 1 + std::abs(fine);
  // Smooth: both slopes agree, and the one-sided slopes differ by O(step).
  return {fine, std::abs(coarse - fine) < 1e-6 * size && std::abs(fine_bend) < 1e-2 * size &&
                    std::abs(coarse_bend) < 2e-2 * size};
}

// Second-order central differences at a step of 1e-5 are off by (1e-5)^2 times a third derivative, and by 1e-16 / 1e-5
// of the loss; 2e-6 leaves room for steep entmax.
constexpr double kSlack = 2e-6;

int check_gradients(Values& x, const Values& gradient, const std::function<double()>& value, const std::string& what) {
  int compared = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const Difference d = difference(x[i], value);
    if (!d.smooth) continue;
    ++compared;
    EXPECT_NEAR(gradient[i], d.value, kSlack * (1 + std::abs(d.value))) << what << " element " << i;
  }
  return compared;
}

// Every transform and selection, over pairs and random trees: how many derivatives were compared of how many.
TEST(Oracle, GradientsAreThoseOfFiniteDifferences) {
  Rng rng(17);
  int compared = 0, all = 0;
  for (int trial = 0; trial < 400; ++trial) {
    AttentionSpec spec = random_spec(rng);
    if (trial % 3 == 1) spec.cap = ScoreCap{trial % 2 == 0 ? 0.8 : 3.0};
    const auto kind = static_cast<AttentionKind>(rng.below(2));
    const int64_t keys = 1 + static_cast<int64_t>(rng.below(7));
    const int64_t queries = 1 + static_cast<int64_t>(rng.below(static_cast<uint64_t>(keys)));
    OracleInput in = random_input(spec, kind, rng, queries, keys);
    if (trial % 2 == 1) draw_terms(in, rng);
    const Values grad = normals(rng, queries * 3), grad_sums = normals(rng, queries * in.terms.sums.count);
    const OracleGradients g = oracle_backward(in, oracle_forward(in), grad, grad_sums);
    const auto value = [&] { return loss(in, grad, grad_sums); };
    const std::string what = print(spec);
    compared += check_gradients(in.q, g.q, value, what + " q");
    compared += check_gradients(in.k, g.k, value, what + " k");
    compared += check_gradients(in.v, g.v, value, what + " v");
    OracleTerms& t = in.terms;
    compared += check_gradients(t.by_head.values, g.by_head, value, what + " by head");
    compared += check_gradients(t.by_query.values, g.by_query, value, what + " by query");
    compared += check_gradients(t.queries, g.queries, value, what + " product's queries");
    compared += check_gradients(t.rows.values, g.rows, value, what + " product's rows");
    all += static_cast<int>(in.q.size() + in.k.size() + in.v.size() + t.by_head.values.size() +
                            t.by_query.values.size() + t.queries.size() + t.rows.values.size());
    const auto* entmax = std::get_if<Entmax>(&spec.transform);
    if (!entmax || !entmax->learned) continue;
    const Difference d = difference(in.alpha, value);
    if (d.smooth) {
      EXPECT_NEAR(g.alpha, d.value, kSlack * (1 + std::abs(d.value))) << what << " alpha";
    }
  }
  EXPECT_GT(compared, all * 9 / 10) << "of " << all;
}

// relu shows the score itself: 2 tanh(s / 2), to which the term is added behind the cap.
TEST(Oracle, ASoftCapByHand) {
  OracleInput in;
  in.spec = parse_attention("softcap(2)+relu");
  in.num_queries = 1, in.num_keys = 3, in.head_dim = 1, in.kind = AttentionKind::kSelf;
  in.q = {2};
  in.k = {0.5, 1e9, 3};
  in.v = {1, 1, 1};
  in.scale = 0.5;
  in.terms.by_head = {.first = -2, .count = 3, .values = {0.25, 7, -1}};
  const OracleOutput output = oracle_forward(in);
  EXPECT_NEAR(output.weights[0], 2 * std::tanh(0.25) + 0.25, 1e-15);
  EXPECT_NEAR(output.weights[1], 2 + 7, 1e-15);
  EXPECT_NEAR(output.weights[2], 2 * std::tanh(1.5) - 1, 1e-15);
  const OracleGradients g = oracle_backward(in, output, {1}, {});
  const double tanh = std::tanh(0.25);
  EXPECT_NEAR(g.k[0], 0.5 * 2 * (1 - tanh * tanh), 1e-15);
  EXPECT_EQ(g.k[1], 0) << "flat";
  EXPECT_EQ(g.by_head[1], 1) << "the term is not capped";
}

// relu of q = 0 makes each weight the term alone. Query 1 of 2 stands at key position 2 of 3.
TEST(Oracle, TermsByHand) {
  OracleInput in;
  in.spec = parse_attention("relu");
  in.num_queries = 2, in.num_keys = 3, in.head_dim = 1;
  in.q = {0, 0}, in.k = {1, 1, 1}, in.v = {1, 10, 100};
  in.scale = 0.5;
  in.terms.by_head = {-1, 2, {1, 2}};  // offsets -1 (and below) and 0 (and above)
  EXPECT_EQ(oracle_forward(in).out, (Values{1 + 20 + 200, 1 + 10 + 200}));
  in.terms.by_query = {0, 1, {3, 4}};  // one offset: a constant of the row
  EXPECT_EQ(oracle_forward(in).out, (Values{4 + 50 + 500, 5 + 50 + 600}));
  in.terms.by_query = {};
  in.terms.rows = {-2, 3, {6, 2, 4}};
  in.terms.queries = {1, 2};
  EXPECT_EQ(oracle_forward(in).out, (Values{(1 + 1) + (2 + 2) * 10 + (2 + 2) * 100, 7 + 30 + 600}));
  in.terms.sums = {-1, 3, {}};
  in.factor = {1, 1, 1, 2, 0, 1};
  EXPECT_EQ(oracle_forward(in).sums, (Values{2, 4, 4, 14, 6, 0}));
}

TEST(Oracle, NormGradientsAreThoseOfFiniteDifferences) {
  Rng rng(18);
  for_each_type<Norm>([&]<class N>(const N& norm) {
    for (const int64_t width : {1, 2, 7}) {
      OracleNormInput in{norm, normals(rng, width), normals(rng, width), normals(rng, width), normals(rng, width)};
      const Values grad = normals(rng, width);
      const OracleNormGradients g = oracle_norm_backward(in, grad);
      const auto value = [&] {
        const Values y = oracle_norm(in);
        return std::inner_product(y.begin(), y.end(), grad.begin(), 0.0);
      };
      const std::string what(N::kName);
      // At width 1 the mean is the value itself: layernorm is constant there.
      EXPECT_EQ(check_gradients(in.z, g.z, value, what + " z"), width);
      if (!g.gain.empty()) {
        EXPECT_EQ(check_gradients(in.gain, g.gain, value, what + " gain"), width);
      }
      if (!g.gate.empty()) {
        EXPECT_EQ(check_gradients(in.gate, g.gate, value, what + " gate"), width);
      }
      if (!g.bias.empty()) {
        EXPECT_EQ(check_gradients(in.bias, g.bias, value, what + " bias"), width);
      }
    }
  });
}

TEST(Oracle, NormsByHand) {
  const Values z = {3, -4};  // mean square 12.5
  const double r = 1 / std::sqrt(12.5 + 1e-8);
  EXPECT_DOUBLE_EQ(oracle_norm({RmsNorm{}, z, {2, 1}, {}, {}})[0], 6 * r);
  EXPECT_DOUBLE_EQ(oracle_norm({GatedRmsNorm{}, z, {1, 1}, {0.5, 0}, {}})[0], 3 * r / (1 + std::exp(-1.5)));
  EXPECT_DOUBLE_EQ(oracle_norm({GatedRmsNorm{}, z, {1, 1}, {0.5, 0}, {}})[1], -2 * r);
  EXPECT_DOUBLE_EQ(oracle_norm({LayerNorm{}, z, {1, 1}, {}, {0, 5}})[1], 5 - 3.5 / std::sqrt(12.25 + 1e-8));
  EXPECT_DOUBLE_EQ(oracle_norm({GatedLayerNorm{}, z, {1, 2}, {0, 0}, {0, 5}})[1],
                   (5 - 7 / std::sqrt(12.25 + 1e-8)) / 2);
  EXPECT_EQ(oracle_norm({GatedLayerNorm{}, {0, 0}, {1, 1}, {3, 3}, {4, 6}}), (Values{2, 3}));  // every head null
  EXPECT_EQ(oracle_norm({GatedRmsNorm{}, {0, 0}, {1, 1}, {1, 1}, {}}), (Values{0, 0}));        // every head null
}

double sum(const Values& x) { return std::accumulate(x.begin(), x.end(), 0.0); }

Transform transform(const char* text) { return parse_attention(text).transform; }

TEST(Transforms, KnownValues) {
  EXPECT_EQ(oracle_transform(transform("sparsemax"), 0, {1, 0.5, -1}), (Values{0.75, 0.25, 0}));
  EXPECT_EQ(oracle_transform(transform("relu"), 0, {1, 0, -1}), (Values{1, 0, 0}));
  EXPECT_EQ(oracle_transform(transform("leaky-relu(0.25)"), 0, {1, 0, -1}), (Values{1, 0, -0.25}));
  EXPECT_NEAR(oracle_transform(transform("gelu"), 0, {1})[0], 0.8413447460685429, 1e-15);  // Phi(1)
  EXPECT_NEAR(oracle_transform(transform("sigmoid(1)"), 0, {1})[0], 0.8807970779778823, 1e-15);
  // 1.5-entmax of (0, 0): tau with 2 tau^2 = 1; both get 1/2. 1.5-entmax of (2, 0): z = (1, 0), tau = 0, p = (1, 0).
  EXPECT_NEAR(oracle_transform(transform("entmax(1.5)"), 0, {0, 0})[0], 0.5, 1e-15);
  EXPECT_NEAR(oracle_transform(transform("entmax(1.5)"), 0, {2, 0})[0], 1, 1e-15);
}

TEST(Transforms, LawsOfEntmax) {
  Rng rng(19);
  for (int trial = 0; trial < 300; ++trial) {
    const Values s = normals(rng, 1 + static_cast<int64_t>(rng.below(40)), 1 + rng.uniform() * 3);
    const Values sparse = oracle_transform(Sparsemax{}, 0, s), half = oracle_transform(Entmax{}, 0, s);
    const Values soft = oracle_transform(Softmax{}, 0, s);
    EXPECT_NEAR(sum(sparse), 1, 1e-14);
    EXPECT_NEAR(sum(half), 1, 1e-14);
    EXPECT_NEAR(sum(soft), 1, 1e-14);
    // The bisection at an alpha next to the exact solutions, and entmax(1 + tiny) next to softmax.
    const Values near2 = oracle_transform(Entmax{2 - 1e-12}, 0, s),
                 near15 = oracle_transform(Entmax{1.5 + 1e-12}, 0, s);
    const Values near1 = oracle_transform(Entmax{1 + 1e-7}, 0, s);
    for (size_t i = 0; i < s.size(); ++i) {
      if (sparse[i] > 0) {
        EXPECT_GT(half[i], 0) << "the support of sparsemax is within that of 1.5-entmax";
      }
      EXPECT_NEAR(near2[i], sparse[i], 1e-9);
      EXPECT_NEAR(near15[i], half[i], 1e-9);
      EXPECT_NEAR(near1[i], soft[i], 1e-4);
    }
  }
}

// ---- laws over whole specs (mechanisms, section 10) ----

// Both specs give the same output.
void expect_same(const std::string& a, const std::string& b, AttentionKind kind, Rng& rng) {
  OracleInput in = random_input(parse_attention(a), kind, rng, 9, 9);
  const Values first = oracle_forward(in).out;
  in.spec = parse_attention(b);
  const Values second = oracle_forward(in).out;
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(first[i], second[i], 1e-14) << a << " and " << b;
}

TEST(Laws, SpecsThatMeanTheSame) {
  Rng rng(20);
  for (const auto kind : {AttentionKind::kSelf, AttentionKind::kCausal}) {
    for (const char* rest : {"+softmax", "+sparsemax", "+entmax(1.5)", "+entmax(1.3)", "+relu", "+gelu"}) {
      const std::string r = rest;
      expect_same("topk(9)" + r, "full" + r, kind, rng);
      expect_same("window(99)" + r, "full" + r, kind, rng);
      expect_same("block(9)" + r, "full" + r, kind, rng);
      expect_same("blocks(9,1)" + r, "full" + r, kind, rng);
      expect_same("blocks(2,4)" + r, "full" + r, kind, rng);
      expect_same("blocks(4,0)" + r, "block(4)" + r, kind, rng);
      expect_same("random(9)" + r, "full" + r, kind, rng);
      expect_same("global(9)" + r, "full" + r, kind, rng);
      expect_same("dilated(99,1)" + r, "full" + r, kind, rng);
      expect_same("window(5)+topk(5)" + r, "window(5)" + r, kind, rng);
      expect_same("window(5)+topk(1,keep=window(5))" + r, "window(5)" + r, kind, rng);
      expect_same("topk(2,keep=full)" + r, "full" + r, kind, rng);
      expect_same("top-p(0.999999999)" + r, "full" + r, kind, rng);
      expect_same("top-p(0.000001)" + r, "topk(1)" + r, kind, rng);
      expect_same("top-p(0.3,keep=full)" + r, "full" + r, kind, rng);
      expect_same("full&strided(1)" + r, "local(9)" + r, kind, rng);
      expect_same("fixed(9,1)" + r, "local(9)" + r, kind, rng);
      expect_same("fixed(4,4)" + r, "local(9)" + r, kind, rng);
      expect_same("fixed(1,1)" + r, "strided(1)" + r, kind, rng);
    }
    // If k reaches sparsemax's support, the keys that top-k drops have no weight in sparsemax either.
    expect_same("topk(8)+sparsemax", "topk(9)+sparsemax", kind, rng);
  }
  expect_same("window(4)", "local(4)", AttentionKind::kCausal, rng);
}

TEST(Laws, TopOneIsTheArgmax) {
  Rng rng(21);
  const OracleInput in = random_input(parse_attention("topk(1)"), AttentionKind::kSelf, rng, 9, 9);
  const OracleOutput output = oracle_forward(in);
  for (size_t i = 0; i < 9; ++i) {
    const auto row = output.scores.begin() + static_cast<long>(i * 9);
    const auto best = static_cast<size_t>(std::max_element(row, row + 9) - row);
    for (size_t j = 0; j < 9; ++j) EXPECT_EQ(output.weights[i * 9 + j], j == best ? 1 : 0);
  }
}

TEST(Laws, TiesAtTheKthScoreAreAllKept) {
  OracleInput in;
  in.spec = parse_attention("topk(2)");
  in.num_queries = 1, in.num_keys = 5, in.head_dim = 1, in.kind = AttentionKind::kCross;
  in.q = {1};
  in.k = {3, 1, 1, 0, 1};
  in.v = {1, 1, 1, 1, 1};
  const Values w = oracle_forward(in).weights;
  EXPECT_GT(w[1], 0);
  EXPECT_EQ(w[1], w[2]);
  EXPECT_EQ(w[1], w[4]);
  EXPECT_EQ(w[3], 0);
}

// Laws of every spec: weights sum to one if the transform normalises, no weight lies off the pairs, a row without
// candidates is zero and has no gradient, and nothing depends on the future in causal attention.
TEST(Laws, OfEverySpec) {
  Rng rng(22);
  for (int trial = 0; trial < 600; ++trial) {
    const AttentionSpec spec = random_spec(rng);
    const auto kind = static_cast<AttentionKind>(rng.below(2));
    const int64_t keys = static_cast<int64_t>(rng.below(12));
    OracleInput in = random_input(spec, kind, rng, keys, keys);
    const OracleOutput output = oracle_forward(in);
    const Values grad = normals(rng, keys * 3);
    const OracleGradients g = oracle_backward(in, output, grad);
    const bool normalised = spec.transform.index() <= 2;
    for (int64_t i = 0; i < keys; ++i) {
      const Row row{i, keys, kind == AttentionKind::kCausal, in.stream};
      double total = 0;
      bool any = false;
      for (int64_t j = 0; j < keys; ++j) {
        const double w = output.weights[static_cast<size_t>(i * keys + j)];
        if (!contains(spec.pairs(), row, j)) {
          EXPECT_EQ(w, 0) << print(spec);
        }
        any |= contains(spec.pairs(), row, j);
        total += w;
      }
      if (normalised) {
        EXPECT_NEAR(total, any ? 1 : 0, 1e-12) << print(spec);
      }
      for (size_t e = 0; e < 3 && !any; ++e) {
        EXPECT_EQ(output.out[static_cast<size_t>(i) * 3 + e], 0);
        EXPECT_EQ(g.q[static_cast<size_t>(i) * 3 + e], 0);
      }
    }
    if (kind != AttentionKind::kCausal || keys < 2) continue;
    OracleInput later = in;
    for (size_t e = 0; e < 3; ++e) later.k[later.k.size() - 1 - e] += 5, later.v[later.v.size() - 1 - e] -= 7;
    const Values changed = oracle_forward(later).out;
    for (size_t i = 0; i + 3 < changed.size(); ++i) EXPECT_EQ(changed[i], output.out[i]) << print(spec);
  }
}

// A decoder's step over a cache is the last row of the full pass.
TEST(Laws, DecodingIsTheEndOfTheFullPass) {
  Rng rng(23);
  for (int trial = 0; trial < 300; ++trial) {
    OracleInput all = random_input(random_spec(rng), AttentionKind::kCausal, rng, 8, 8);
    all.factor.clear();
    const Values full = oracle_forward(all).out;
    OracleInput last = all;
    last.num_queries = 2;
    last.q.assign(all.q.end() - 6, all.q.end());
    const Values step = oracle_forward(last).out;
    for (size_t i = 0; i < 6; ++i) EXPECT_EQ(step[i], full[full.size() - 6 + i]) << print(all.spec);
  }
}

// tanh rises strictly, but numbers near 1 are equal in the end: such scores are ties, all of which topk(k) keeps.
TEST(Laws, CappedScoresThatAreEqualAreTies) {
  OracleInput in;
  in.spec = parse_attention("softcap(1)+topk(1)");
  in.num_queries = 1, in.num_keys = 4, in.head_dim = 1, in.kind = AttentionKind::kCross;
  in.q = {1};
  in.k = {3, 40, 50, -60};
  in.v = {1, 1, 1, 1};
  EXPECT_EQ(oracle_forward(in).weights, Values({0, 0.5, 0.5, 0}));
  in.k = {3, 4, 5, -60};
  EXPECT_EQ(oracle_forward(in).weights, Values({0, 0, 1, 0}));
}

// A cap far above all scores changes nothing but rounding, (s / c)^2 / 3 of each score.
TEST(Laws, AHighCapIsNone) {
  Rng rng(27);
  for (const char* text : {"full", "window(3)+topk(2)", "sparsemax", "relu", "sink(1)", "top-p(0.5)"}) {
    OracleInput in = random_input(parse_attention(text), AttentionKind::kCausal, rng, 8, 8);
    const Values plain = oracle_forward(in).out;
    in.spec.cap = ScoreCap{1e6};
    const Values capped = oracle_forward(in).out;
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(capped[i], plain[i], 1e-8) << text;
  }
}

// Permuting the keys permutes the weights, where positions play no part.
TEST(Laws, KeysHaveNoOrderOfTheirOwn) {
  Rng rng(24);
  for (const char* text : {"full", "topk(3)", "sparsemax", "topk(4)+entmax(1.5)", "relu", "topk(2)+gelu"}) {
    OracleInput in = random_input(parse_attention(text), AttentionKind::kCross, rng, 5, 8);
    in.factor.clear();
    const Values before = oracle_forward(in).out;
    for (size_t j = 0; j < 4; ++j) {
      std::swap_ranges(in.k.begin() + static_cast<long>(3 * j), in.k.begin() + static_cast<long>(3 * j + 3),
                       in.k.end() - static_cast<long>(3 * j + 3));
      std::swap_ranges(in.v.begin() + static_cast<long>(3 * j), in.v.begin() + static_cast<long>(3 * j + 3),
                       in.v.end() - static_cast<long>(3 * j + 3));
    }
    const Values after = oracle_forward(in).out;
    for (size_t i = 0; i < after.size(); ++i) EXPECT_NEAR(after[i], before[i], 1e-13) << text;
  }
}

// relu: keys may be split and the parts added; with all scores positive it is linear attention.
TEST(Laws, ReluIsAdditiveOverKeys) {
  Rng rng(25);
  OracleInput in = random_input(parse_attention("relu"), AttentionKind::kCross, rng, 4, 8);
  in.factor.clear();
  const Values whole = oracle_forward(in).out;
  OracleInput left = in, right = in;
  left.num_keys = 5, right.num_keys = 3;
  left.k.resize(15), left.v.resize(15);
  right.k.assign(in.k.begin() + 15, in.k.end()), right.v.assign(in.v.begin() + 15, in.v.end());
  const Values a = oracle_forward(left).out, b = oracle_forward(right).out;
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], a[i] + b[i], 1e-13);
}

TEST(Laws, NanSpreadsToTheRowsThatSeeIt) {
  Rng rng(26);
  for (const char* text :
       {"window(3)", "window(3)+topk(1)", "window(3)+relu", "window(3)+sparsemax", "window(3)+entmax(1.3)"}) {
    OracleInput in = random_input(parse_attention(text), AttentionKind::kSelf, rng, 9, 9);
    in.factor.clear();
    in.k[4 * 3 + 1] = std::nan("");
    const Values out = oracle_forward(in).out;
    for (size_t i = 0; i < 9; ++i)
      for (size_t e = 0; e < 3; ++e) EXPECT_EQ(std::isnan(out[i * 3 + e]), i >= 3 && i <= 5) << text << " row " << i;
  }
}

}  // namespace
}  // namespace fovea::kernels::oracle_test
