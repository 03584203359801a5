#include "fovea/kernels/attention/testing/kernel_test_suite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/attention/dropout.h"
#include "fovea/kernels/attention/testing/cases.h"
#include "fovea/kernels/attention/testing/compare.h"

namespace fovea::kernels::testing_suite {
namespace {

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

// The suite's part of the cases, on inputs drawn so.
int against_oracle(const Suite& suite, const std::vector<Case>& cases, const Draw& draw) {
  int ran = 0, undecided = 0;
  std::string which;
  for (Case& c : part_of(suite, cases)) {
    Inputs inputs;
    std::vector<Truth> truths;
    if (!draw_clear(c, draw, inputs, truths)) {
      // Huge and tiny inputs make scores nearly equal, and rounding then decides which key top-p keeps last.
      const bool nearly_equal = draw.q != 1 || draw.k != 1;
      undecided += nearly_equal && std::holds_alternative<TopP>(c.problem.spec.selection) ? 0 : 1;
      which += "\n" + title(suite, c);
      continue;
    }
    ++ran;
    const std::string wrong = compare_all(c, run(suite, c, inputs), truths);
    EXPECT_EQ(wrong, "") << title(suite, c);
  }
  // A part of the long cases is a handful, of which one may be undecided.
  EXPECT_LE(undecided, std::max(1, ran / 10)) << "cases without inputs on which rounding decides nothing:" << which;
  return ran;
}

bool same(const AttentionProblem& p, const Results& a, const Results& b, const Sequence& s) {
  const OffsetRanges& has = p.offsets;
  if (!a.out.same_rows(b.out, s.q_begin, s.q_length)) return false;
  if (has.sums.count > 0 && !a.sums.same_rows(b.sums, s.q_begin, s.q_length)) return false;
  if (!p.needs_backward) return true;
  if (has.by_query.count > 0 && !a.grad_by_query.same_rows(b.grad_by_query, s.q_begin, s.q_length)) return false;
  if (has.product.count > 0 && !a.grad_queries.same_rows(b.grad_queries, s.q_begin, s.q_length)) return false;
  return a.grad_q.same_rows(b.grad_q, s.q_begin, s.q_length) && a.grad_k.same_rows(b.grad_k, s.k_begin, s.k_length) &&
         a.grad_v.same_rows(b.grad_v, s.k_begin, s.k_length);
}

}  // namespace

int check_against_oracle(const Suite& suite) { return against_oracle(suite, all_cases(suite), {}); }

int check_long(const Suite& suite) { return against_oracle(suite, long_cases(suite), {}); }

int check_ties(const Suite& suite) {
  std::vector<Case> cases = all_cases(suite);
  // At the edge of sparsemax's support equal scores make the gradient itself undecided.
  std::erase_if(cases, [](const Case& c) { return std::holds_alternative<Sparsemax>(c.problem.spec.transform); });
  return against_oracle(suite, every_nth(cases, 3), {.coarse = true});
}

int check_huge_and_tiny(const Suite& suite) {
  // Deviations of q, k, v: scores far below 1, of thousands; norms whose squares leave float's range; extreme values.
  constexpr std::array<Draw, 5> kDraws = {
      {{1e-17, 1e-17, 1}, {1e15, 1e-15, 1e12}, {1e-20, 1e20, 1e-15}, {100, 10, 1}, {1, 1, 1e30}}};
  int ran = 0;
  const std::vector<Case> cases = all_cases(suite);
  for (size_t i = 0; i < kDraws.size(); ++i) ran += against_oracle(suite, every_nth(cases, 25, i * 3), kDraws.at(i));
  return ran;
}

int check_same_bits(const Suite& suite) {
  int ran = 0;
  std::vector<Case> cases = part_of(suite, all_cases(suite));
  for (Case& c : part_of(suite, long_cases(suite))) cases.push_back(std::move(c));
  for (const Case& c : cases) {
    ++ran;
    const Inputs inputs = draw_inputs(c, {}, c.seed);
    const Results one = run(suite, c, inputs);
    const int threads = 2 + ran % 2;
    const Results several = run(suite, c, inputs, threads);
    for (const Sequence& s : c.problem.sequences)
      EXPECT_TRUE(same(c.problem, one, several, s)) << threads << " threads: " << title(suite, c);
    EXPECT_TRUE(one.grad_alpha == several.grad_alpha) << threads << " threads, grad_alpha: " << title(suite, c);
    EXPECT_TRUE(one.grad_by_head == several.grad_by_head && one.grad_rows == several.grad_rows)
        << threads << " threads, gradients of terms: " << title(suite, c);
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

// One element of `token` in every head is rubbish: the inputs with it, and what came of them without and with it.
struct Spoilt {
  const Suite& suite;
  const AttentionProblem& problem;
  Place place;
  int64_t token;
  Inputs inputs;
  Results before, after;
  std::string what;
};

// Whether the rubbish may reach query row `i` of sequence s under the head of `one`, whose truth is `right`. A value
// does by its weight.
bool reaches(const Spoilt& x, const OracleInput& one, const OracleOutput& right, const Sequence& s, int64_t i) {
  if (x.place == Place::kQuery) return s.q_begin + i == x.token;
  const int64_t key = x.token - s.k_begin;
  if (key < 0 || key >= s.k_length) return false;
  if (x.place == Place::kValue) {
    return x.suite.zero_weights_spoil || right.weights[static_cast<size_t>(i * s.k_length + key)] != 0;
  }
  return oracle_candidate(one, row_of(x.problem, s, i, one.stream), i, key);
}

// Whether a row that is not finite must be so. A score of minus infinity may count as none at all.
bool is_decided(const OracleOutput& right, const Sequence& s, int64_t i, Place place) {
  const auto begin = right.scores.begin() + i * s.k_length;
  return place == Place::kValue ||
         std::any_of(begin, begin + s.k_length, [](double x) { return std::isnan(x) || x == INFINITY; });
}

// The greatest absolute value of a row of the right output, whose first element is `at`.
double greatest_of_row(const OracleOutput& right, int64_t at, const Spoilt& x) {
  double greatest = 0;
  for (int64_t e = 0; e < x.problem.head_dim; ++e)
    greatest = std::max(greatest, std::abs(right.out[static_cast<size_t>(at + e)]));
  return greatest;
}

void check_spoilt_head(const Spoilt& x, size_t index, int64_t h) {
  const Sequence& s = x.problem.sequences[index];
  const OracleInput one = one_head(x.problem, x.inputs, index, h);
  const OracleOutput right = oracle_forward(one);
  for (int64_t i = 0; i < s.q_length; ++i) {
    const bool touched = reaches(x, one, right, s, i);
    for (int64_t e = 0; e < x.problem.head_dim; ++e) {
      const double expected = right.out[static_cast<size_t>(i * x.problem.head_dim + e)];
      if (!touched) {
        if (x.after.out.bits(s.q_begin + i, h, e) == x.before.out.bits(s.q_begin + i, h, e)) continue;
        // A head with a number that is not finite is computed without tiles: sums that differ by 2^-16 of their terms,
        // then round to 8 bits. Its keys are not screened either: in float32 the threshold of entmax is found from sums
        // over other lists, with keys of weight zero between the others, and differs in its last places. So may the
        // reference's sums with a sink, as it then takes the keys of a row by themselves.
        const bool is_narrow = x.problem.dtype == DType::kBFloat16;
        const double before = x.before.out.get(s.q_begin + i, h, e);
        const double terms = greatest_of_row(right, i * x.problem.head_dim, x);
        const double bound =
            (is_narrow ? 0x1p-7 : 0x1p-20) * std::abs(before) + (is_narrow ? 0x1p-13 : 0x1p-20) * terms;
        const bool has_sink = std::holds_alternative<Sink>(x.problem.spec.transform);
        EXPECT_TRUE(is_narrow || (x.suite.zero_weights_spoil && has_sink) ||
                    print(x.problem.spec).find("entmax") != std::string::npos)
            << "row " << i << ", " << x.what;
        EXPECT_NEAR(x.after.out.get(s.q_begin + i, h, e), before, bound) << "row " << i << ", " << x.what;
      } else if (!std::isfinite(expected) && is_decided(right, s, i, x.place)) {
        EXPECT_FALSE(std::isfinite(x.after.out.get(s.q_begin + i, h, e))) << "row " << i << ", " << x.what;
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

void check_spoilt(const Suite& suite, const Case& c, Place place, double rubbish) {
  static constexpr const char* kPlaces[] = {" in q: ", " in k: ", " in v: "};
  const Inputs clean = draw_inputs(c, {}, c.seed);
  Inputs inputs = clean;
  Array& array = place == Place::kQuery ? inputs.q : place == Place::kKey ? inputs.k : inputs.v;
  if (array.tokens() == 0) return;
  const int64_t token = array.tokens() / 2;
  for (int64_t h = 0; h < array.heads(); ++h) array.set(token, h, c.problem.head_dim / 2, rubbish);
  const Spoilt x{suite,
                 c.problem,
                 place,
                 token,
                 inputs,
                 run(suite, c, clean),
                 run(suite, c, inputs),
                 cat(rubbish, kPlaces[static_cast<size_t>(place)], title(suite, c))};
  for (size_t index = 0; index < c.problem.sequences.size(); ++index) {
    for (int64_t h = 0; h < c.problem.num_heads; ++h) check_spoilt_head(x, index, h);
  }
}

}  // namespace

int check_not_finite(const Suite& suite) {
  int ran = 0;
  // An eighth of them. They come from nested loops: every eighth would meet always the same of an inner one.
  const std::vector<Case> all = all_cases(suite);
  std::vector<Case> diagonal;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i % 8 == i / 8 % 8) diagonal.push_back(all[i]);
  }
  for (Case& c : part_of(suite, diagonal)) {
    c.problem.dropout = 0;  // a dropped weight may hide what the row saw
    ++ran;
    for (const Place place : {Place::kQuery, Place::kKey, Place::kValue})
      for (const double rubbish : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                                   -std::numeric_limits<double>::infinity()})
        check_spoilt(suite, c, place, rubbish);
  }
  return ran;
}

}  // namespace fovea::kernels::testing_suite
