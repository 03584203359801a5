#include "fovea/kernels/attention/kernel_test_suite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/attention/testing/cases.h"
#include "fovea/kernels/attention/testing/naive.h"

namespace fovea::kernels::testing_suite {
namespace {

constexpr double kUnit = 0x1p-24;  // roundoff of float
constexpr double kBFloat16Unit = 0x1p-8;

std::string title(const Suite& suite, const Case& c) {
  return cat(suite.kernel->name, " case ", c.number, ": ", describe(c.problem));
}

bool accepts(const Suite& suite, const AttentionProblem& problem) { return suite.kernel->refuses(problem).empty(); }

Results run(const Suite& suite, const Case& c, const Inputs& inputs, int threads = 1) {
  SerialExecutor serial;
  ThreadExecutor several(threads);
  Executor& executor = threads == 1 ? static_cast<Executor&>(serial) : several;
  return run_kernel(*suite.kernel, c.problem, inputs, c.outputs, executor);
}

// One head of one sequence: what is right, what naive float makes of it, how far rounding reaches.
struct Truth {
  HeadValues right, naive, reach;
};

// Whether any head of any sequence is doubtful; `truths` by sequence, then head.
bool find_truths(const Case& c, const Inputs& in, std::vector<Truth>& truths) {
  truths.clear();
  for (size_t s = 0; s < c.problem.sequences.size(); ++s) {
    for (int64_t h = 0; h < c.problem.num_heads; ++h) {
      const OracleInput head = one_head(c.problem, in, s, h);
      const std::vector<double> grad = grad_out_of(c.problem, in, s, h);
      const OracleOutput output = oracle_forward(head);
      if (is_doubtful(head, output)) return false;
      OracleGradients g = oracle_backward(head, output, grad);
      truths.push_back({{output.out, std::move(g.q), std::move(g.k), std::move(g.v), g.alpha},
                        naive_float(head, grad),
                        magnitudes(head, output, grad)});
    }
  }
  return true;
}

// One result array of one kind (out, grad_q, ...), over all sequences and heads.
struct Compared {
  const char* name;
  const Array* got;
  std::vector<double> HeadValues::*values;
  bool by_query;
};

std::string compare(const Case& c, const Compared& what, const std::vector<Truth>& truths) {
  const DType dtype = c.problem.dtype;
  double naive_error = 0;
  for (const Truth& truth : truths)
    for (size_t i = 0; i < (truth.right.*what.values).size(); ++i)
      naive_error = std::max(naive_error,
                             std::abs(round_to(dtype, (truth.naive.*what.values)[i]) - (truth.right.*what.values)[i]));
  size_t at = 0;
  for (const Sequence& s : c.problem.sequences) {
    for (int64_t h = 0; h < c.problem.num_heads; ++h, ++at) {
      const int64_t begin = what.by_query ? s.q_begin : s.k_begin, length = what.by_query ? s.q_length : s.k_length;
      for (int64_t t = 0; t < length; ++t) {
        for (int64_t i = 0; i < c.problem.head_dim; ++i) {
          const auto place = static_cast<size_t>(t * c.problem.head_dim + i);
          const double right = (truths[at].right.*what.values)[place], got = what.got->get(begin + t, h, i);
          // Eight roundings a term: a sum in another order, a fused multiply, an exponential of an ulp or two.
          const double reach = 8 * kUnit * (truths[at].reach.*what.values)[place] + std::numeric_limits<float>::min() +
                               (dtype == DType::kBFloat16 ? kBFloat16Unit * std::abs(right) : 0);
          if (std::abs(got - right) <= 2 * naive_error + reach) continue;
          return cat(what.name, "[sequence of ", s.q_length, "x", s.k_length, ", row ", t, ", head ", h, ", ", i,
                     "] is ", got, ", expected ", right, "; naive float is wrong by at most ", naive_error,
                     ", rounding reaches ", reach);
        }
      }
    }
  }
  return what.got->intact() ? "" : cat(what.name, ": written outside its rows");
}

std::string compare_alpha(const Case& c, const Results& got, const std::vector<Truth>& truths) {
  const auto* entmax = std::get_if<Entmax>(&c.problem.spec.transform);
  if (!entmax || !entmax->learned) return "";
  for (int64_t h = 0; h < c.problem.num_heads; ++h) {
    double right = 0, naive = 0, reach = 0;
    for (size_t at = static_cast<size_t>(h); at < truths.size(); at += static_cast<size_t>(c.problem.num_heads)) {
      right += truths[at].right.alpha;
      naive += truths[at].naive.alpha;
      reach += 8 * kUnit * truths[at].reach.alpha;
    }
    const double value = got.grad_alpha[static_cast<size_t>(h)];
    if (!(std::abs(value - right) <= 2 * std::abs(naive - right) + reach))
      return cat("grad_alpha[", h, "] is ", value, ", expected ", right, "; naive float gives ", naive);
  }
  return "";
}

std::string compare_all(const Case& c, const Results& got, const std::vector<Truth>& truths) {
  std::string wrong = compare(c, {"out", &got.out, &HeadValues::out, true}, truths);
  if (!wrong.empty() || !c.problem.needs_backward) return wrong;
  for (const Compared& what :
       {Compared{"grad_q", &got.grad_q, &HeadValues::q, true}, Compared{"grad_k", &got.grad_k, &HeadValues::k, false},
        Compared{"grad_v", &got.grad_v, &HeadValues::v, false}})
    if (wrong = compare(c, what, truths); !wrong.empty()) return wrong;
  return compare_alpha(c, got, truths);
}

// Inputs on which rounding decides nothing, or none after many draws.
bool draw_clear(const Case& c, const Draw& draw, Inputs& inputs, std::vector<Truth>& truths) {
  for (uint64_t attempt = 0; attempt < 100; ++attempt) {
    inputs = draw_inputs(c, draw, c.seed + attempt);
    if (find_truths(c, inputs, truths)) return true;
  }
  return false;
}

// Cases that the kernel takes, on inputs drawn so.
int against_oracle(const Suite& suite, std::vector<Case> cases, const Draw& draw,
                   const std::function<bool(Case&)>& chosen) {
  int ran = 0, undecided = 0;
  for (Case& c : cases) {
    if (!chosen(c) || !accepts(suite, c.problem)) continue;
    Inputs inputs;
    std::vector<Truth> truths;
    if (!draw_clear(c, draw, inputs, truths)) {
      ++undecided;
      continue;
    }
    ++ran;
    const std::string wrong = compare_all(c, run(suite, c, inputs), truths);
    EXPECT_EQ(wrong, "") << title(suite, c);
  }
  EXPECT_LE(undecided, ran / 10) << "cases without inputs on which rounding decides nothing";
  return ran;
}

// The rows of `sequence` (all heads) hold the same bits in both.
bool same_rows(const Array& a, const Array& b, int64_t begin, int64_t length) {
  for (int64_t t = begin; t < begin + length; ++t)
    for (int64_t h = 0; h < a.heads(); ++h)
      for (int64_t i = 0; i < a.width(); ++i)
        if (a.bits(t, h, i) != b.bits(t, h, i)) return false;
  return true;
}

bool same(const AttentionProblem& p, const Results& a, const Results& b, const Sequence& s) {
  if (!same_rows(a.out, b.out, s.q_begin, s.q_length)) return false;
  if (!p.needs_backward) return true;
  return same_rows(a.grad_q, b.grad_q, s.q_begin, s.q_length) && same_rows(a.grad_k, b.grad_k, s.k_begin, s.k_length) &&
         same_rows(a.grad_v, b.grad_v, s.k_begin, s.k_length);
}

}  // namespace

int check_against_oracle(const Suite& suite) {
  return against_oracle(suite, all_cases(suite), {}, [](Case&) { return true; });
}

int check_long(const Suite& suite) {
  return against_oracle(suite, long_cases(suite), {}, [](Case&) { return true; });
}

int check_ties(const Suite& suite) {
  return against_oracle(suite, all_cases(suite), {.coarse = true}, [](Case& c) {
    // At the edge of sparsemax's support equal scores make the gradient itself undecided.
    if (std::holds_alternative<Sparsemax>(c.problem.spec.transform)) return false;
    return c.number % 3 == 0;
  });
}

int check_huge_and_tiny(const Suite& suite) {
  // Of q, k and v: scores far below 1, of thousands; norms whose squares leave float's range; huge and tiny values.
  constexpr std::array<Draw, 5> kDraws = {
      {{1e-17, 1e-17, 1}, {1e15, 1e-15, 1e12}, {1e-20, 1e20, 1e-15}, {100, 10, 1}, {1, 1, 1e30}}};
  int ran = 0;
  for (size_t i = 0; i < kDraws.size(); ++i)
    ran += against_oracle(suite, all_cases(suite), kDraws.at(i),
                          [&](Case& c) { return c.number % 25 == static_cast<int>(i * 3); });
  return ran;
}

int check_same_bits(const Suite& suite) {
  int ran = 0;
  for (const Case& c : all_cases(suite)) {
    if (!accepts(suite, c.problem)) continue;
    ++ran;
    const Inputs inputs = draw_inputs(c, {}, c.seed);
    const Results one = run(suite, c, inputs);
    for (const int threads : {2, 3}) {
      const Results several = run(suite, c, inputs, threads);
      for (const Sequence& s : c.problem.sequences)
        EXPECT_TRUE(same(c.problem, one, several, s)) << threads << " threads: " << title(suite, c);
      EXPECT_TRUE(one.grad_alpha == several.grad_alpha) << threads << " threads, grad_alpha: " << title(suite, c);
    }
    for (const Sequence& s : c.problem.sequences) {
      Case alone = c;
      alone.problem.sequences = {s};
      if (c.problem.sequences.size() < 2 || !accepts(suite, alone.problem)) continue;
      EXPECT_TRUE(same(c.problem, one, run(suite, alone, inputs), s))
          << s.q_length << "x" << s.k_length << " alone: " << title(suite, c);
    }
  }
  return ran;
}

namespace {

enum class Place : uint8_t { kQuery, kKey, kValue };

// Whether query row `i` of (sequence s, head h) may see token `t` of the array that was spoilt.
bool sees(const AttentionProblem& p, const Inputs& in, const Sequence& s, int64_t h, int64_t i, int64_t t,
          Place place) {
  if (place == Place::kQuery) return s.q_begin + i == t;
  if (t < s.k_begin || t >= s.k_begin + s.k_length) return false;
  if (place == Place::kValue) return true;
  const size_t index = static_cast<size_t>(&s - p.sequences.data());
  const OracleInput head = one_head(p, in, index, h);
  const bool cross = p.kind == AttentionKind::kCross;
  const Row row{cross ? i : i + s.k_length - s.q_length, s.k_length, p.kind == AttentionKind::kCausal, head.stream};
  return contains(p.spec.pairs, row, t - s.k_begin);
}

// Whether a row that is not finite must be so. A score of minus infinity may count as none at all.
bool is_decided(const OracleOutput& right, const Sequence& s, int64_t i, Place place) {
  const auto begin = right.scores.begin() + i * s.k_length;
  return place == Place::kValue ||
         std::any_of(begin, begin + s.k_length, [](double x) { return std::isnan(x) || x == INFINITY; });
}

void check_spoilt(const Suite& suite, const Case& c, Place place, double rubbish) {
  const AttentionProblem& p = c.problem;
  const Inputs clean = draw_inputs(c, {}, c.seed);
  Inputs spoilt = clean;
  Array& array = place == Place::kQuery ? spoilt.q : place == Place::kKey ? spoilt.k : spoilt.v;
  if (array.tokens() == 0) return;
  const int64_t token = array.tokens() / 2;
  for (int64_t h = 0; h < p.num_heads; ++h) array.set(token, h, p.head_dim / 2, rubbish);
  const Results before = run(suite, c, clean), after = run(suite, c, spoilt);
  const std::string where = cat(rubbish,
                                place == Place::kQuery ? " in q: "
                                : place == Place::kKey ? " in k: "
                                                       : " in v: ",
                                title(suite, c));
  for (size_t index = 0; index < p.sequences.size(); ++index) {
    const Sequence& s = p.sequences[index];
    for (int64_t h = 0; h < p.num_heads; ++h) {
      const OracleOutput right = oracle_forward(one_head(p, spoilt, index, h));
      for (int64_t i = 0; i < s.q_length; ++i) {
        const bool touched = sees(p, spoilt, s, h, i, token, place);
        for (int64_t e = 0; e < p.head_dim; ++e) {
          const double expected = right.out[static_cast<size_t>(i * p.head_dim + e)];
          if (!touched) {
            EXPECT_EQ(after.out.bits(s.q_begin + i, h, e), before.out.bits(s.q_begin + i, h, e))
                << "row " << i << ", " << where;
          } else if (!std::isfinite(expected) && is_decided(right, s, i, place)) {
            EXPECT_FALSE(std::isfinite(after.out.get(s.q_begin + i, h, e))) << "row " << i << ", " << where;
          }
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

}  // namespace

int check_not_finite(const Suite& suite) {
  int ran = 0;
  for (Case c : all_cases(suite)) {
    if (c.number % 4 != 0 || !accepts(suite, c.problem)) continue;
    c.problem.dropout = 0;  // a dropped weight may hide what the row saw
    ++ran;
    for (const Place place : {Place::kQuery, Place::kKey, Place::kValue})
      for (const double rubbish : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                                   -std::numeric_limits<double>::infinity()})
        check_spoilt(suite, c, place, rubbish);
  }
  return ran;
}

void check_kernel(const Kernel& kernel, DType dtype) {
  const Suite suite{&kernel, dtype};
  const int ran = check_against_oracle(suite);
  EXPECT_GT(ran, 0) << kernel.name << " accepts no problem of the suite";
  check_long(suite);
  check_same_bits(suite);
  check_ties(suite);
  check_huge_and_tiny(suite);
  check_not_finite(suite);
}

}  // namespace fovea::kernels::testing_suite
