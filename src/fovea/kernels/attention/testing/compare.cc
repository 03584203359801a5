#include "fovea/kernels/attention/testing/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/base/strings.h"
#include "fovea/spec/attention_parameters.h"

namespace fovea::kernels::testing_suite {
namespace {

constexpr double kUnit = 0x1p-24;  // roundoff of float
constexpr double kBFloat16Unit = 0x1p-8;

// Whether any head of any sequence is doubtful; `truths` by sequence, then head.
bool find_truths(const Case& c, const Inputs& in, std::vector<Truth>& truths) {
  truths.clear();
  for (size_t s = 0; s < c.problem.sequences.size(); ++s) {
    for (int64_t h = 0; h < c.problem.num_heads; ++h) {
      const OracleInput head = one_head(c.problem, in, s, h);
      const HeadCotangents grad = cotangents_of(c.problem, in, s, h);
      const OracleOutput output = oracle_forward(head);
      if (is_doubtful(head, output)) return false;
      OracleGradients g = oracle_backward(head, output, grad.out, grad.sums);
      truths.push_back({{output.out, std::move(g.q), std::move(g.k), std::move(g.v), g.alpha, output.sums,
                         std::move(g.by_head), std::move(g.by_query), std::move(g.queries), std::move(g.rows)},
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
  DType dtype;
};

std::string compare(const Case& c, const Compared& what, const std::vector<Truth>& truths) {
  const DType dtype = what.dtype;
  const int64_t width = what.got->width();
  double naive_error = 0;
  for (const Truth& truth : truths)
    for (size_t i = 0; i < (truth.right.*what.values).size(); ++i)
      naive_error = std::max(naive_error,
                             std::abs(round_to(dtype, (truth.naive.*what.values)[i]) - (truth.right.*what.values)[i]));
  size_t at = 0;
  for (const Sequence& s : c.problem.sequences) {
    for (int64_t h = 0; h < what.got->heads(); ++h, ++at) {
      const int64_t begin = what.by_query ? s.q_begin : s.k_begin, length = what.by_query ? s.q_length : s.k_length;
      for (int64_t t = 0; t < length; ++t) {
        for (int64_t i = 0; i < width; ++i) {
          const auto place = static_cast<size_t>(t * width + i);
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

void add_to(std::vector<double>& sums, const std::vector<double>& more) {
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
}

// The truths of the gradients of k and v: sums over the heads that read a head of the keys; by sequence, then key head.
std::vector<Truth> by_key_head(const AttentionProblem& problem, const std::vector<Truth>& truths) {
  std::vector<Truth> all;
  for (size_t at = 0; at < truths.size(); ++at) {
    const int64_t head = static_cast<int64_t>(at) % problem.num_heads;
    if (head == problem.keys.first_head(problem.key_head(head))) {
      all.push_back(truths[at]);
      continue;
    }
    for (HeadValues Truth::*const of : {&Truth::right, &Truth::naive, &Truth::reach}) {
      add_to((all.back().*of).k, (truths[at].*of).k);
      add_to((all.back().*of).v, (truths[at].*of).v);
    }
  }
  return all;
}

std::string compare_alpha(const Case& c, const Results& got, const std::vector<Truth>& truths) {
  if (!learns_argument(c.problem.spec.transform)) return "";
  // A sink's gradient sums dO . O, whose outputs tiles sum from halves of bfloat16, to 2^-16 of the terms.
  const bool by_tiles = c.problem.dtype == DType::kBFloat16 && learns_sink(c.problem.spec.transform);
  const double unit = by_tiles ? 0x1p-16 : 8 * kUnit;
  for (int64_t h = 0; h < c.problem.num_heads; ++h) {
    double right = 0, naive = 0, reach = 0;
    for (size_t at = static_cast<size_t>(h); at < truths.size(); at += static_cast<size_t>(c.problem.num_heads)) {
      right += truths[at].right.alpha;
      naive += truths[at].naive.alpha;
      reach += unit * truths[at].reach.alpha;
    }
    const double value = got.grad_alpha[static_cast<size_t>(h)];
    if (!(std::abs(value - right) <= 2 * std::abs(naive - right) + reach))
      return cat("grad_alpha[", h, "] is ", value, ", expected ", right, "; naive float gives ", naive);
  }
  return "";
}

// A gradient that all sequences add to: floats [rows, H, width].
struct SharedCompared {
  const char* name;
  const std::vector<float>* got;
  std::vector<double> HeadValues::*values;
  int64_t width;
};

std::string compare_shared(const Case& c, const SharedCompared& what, const std::vector<Truth>& truths) {
  const auto heads = static_cast<size_t>(c.problem.num_heads);
  const auto sum_of = [&](size_t head, size_t i, HeadValues Truth::*const of) {
    double sum = 0;
    for (size_t at = head; at < truths.size(); at += heads) sum += (truths[at].*of.*what.values)[i];
    return sum;
  };
  for (size_t h = 0; h < heads; ++h) {
    const std::vector<double> got = of_head(*what.got, c.problem, static_cast<int64_t>(h), what.width);
    double naive_error = 0;
    for (size_t i = 0; i < got.size(); ++i)
      naive_error = std::max(naive_error, std::abs(sum_of(h, i, &Truth::naive) - sum_of(h, i, &Truth::right)));
    for (size_t i = 0; i < got.size(); ++i) {
      const double right = sum_of(h, i, &Truth::right);
      const double reach = std::numeric_limits<float>::min() + 8 * kUnit * sum_of(h, i, &Truth::reach);
      if (std::abs(got[i] - right) <= 2 * naive_error + reach) continue;
      return cat(what.name, "[head ", h, ", ", i, "] is ", got[i], ", expected ", right,
                 "; naive float is wrong by at most ", naive_error, ", rounding reaches ", reach);
    }
  }
  return "";
}

std::string compare_terms(const Case& c, const Results& got, const std::vector<Truth>& truths) {
  const OffsetRanges& has = c.problem.offsets;
  std::string wrong;
  if (has.by_query.count > 0) {
    wrong = compare(c, {"grad_by_query", &got.grad_by_query, &HeadValues::by_query, true, DType::kFloat32}, truths);
  }
  if (wrong.empty() && has.product.count > 0) {
    wrong = compare(
        c, {"grad of the product's queries", &got.grad_queries, &HeadValues::queries, true, c.problem.dtype}, truths);
  }
  if (wrong.empty() && has.by_head.count > 0) {
    wrong = compare_shared(c, {"grad_by_head", &got.grad_by_head, &HeadValues::by_head, has.by_head.count}, truths);
  }
  if (wrong.empty() && has.product.count > 0) {
    wrong = compare_shared(c, {"grad of the product's rows", &got.grad_rows, &HeadValues::rows, c.problem.head_dim},
                           truths);
  }
  return wrong;
}

}  // namespace

std::string compare_all(const Case& c, const Results& got, const std::vector<Truth>& truths) {
  const DType dtype = c.problem.dtype;
  std::string wrong = compare(c, {"out", &got.out, &HeadValues::out, true, dtype}, truths);
  if (wrong.empty() && c.problem.offsets.sums.count > 0) {
    wrong = compare(c, {"sums", &got.sums, &HeadValues::sums, true, DType::kFloat32}, truths);
  }
  if (!wrong.empty() || !c.problem.needs_backward) return wrong;
  const std::vector<Truth> by_key = by_key_head(c.problem, truths);
  if (!got.saved_intact) return "stats or kept: written outside the rows of a sequence";
  for (const Compared& what : {Compared{"grad_q", &got.grad_q, &HeadValues::q, true, dtype},
                               Compared{"grad_k", &got.grad_k, &HeadValues::k, false, dtype},
                               Compared{"grad_v", &got.grad_v, &HeadValues::v, false, dtype}})
    if (wrong = compare(c, what, what.by_query ? truths : by_key); !wrong.empty()) return wrong;
  if (wrong = compare_alpha(c, got, truths); !wrong.empty()) return wrong;
  return compare_terms(c, got, truths);
}

// Inputs on which rounding decides nothing, or none after many draws.
bool draw_clear(const Case& c, const Draw& draw, Inputs& inputs, std::vector<Truth>& truths) {
  for (uint64_t attempt = 0; attempt < draw.attempts; ++attempt) {
    inputs = draw_inputs(c, draw, c.seed + attempt);
    if (find_truths(c, inputs, truths)) return true;
  }
  return false;
}

}  // namespace fovea::kernels::testing_suite
