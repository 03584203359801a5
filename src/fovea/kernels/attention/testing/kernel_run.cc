#include "fovea/kernels/attention/testing/kernel_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "fovea/base/strings.h"
#include "fovea/kernels/attention/dropout.h"

namespace fovea::kernels::testing_suite {

namespace {

constexpr int32_t kUnset = -0x55555555;

// `stats` and `kept` of a call, rubbish at first.
struct Saved {
  SavedPerRow room;
  std::vector<float> stats;
  std::vector<int32_t> kept;

  Saved(int64_t rows, const SavedPerRow& each)
      : room(each),
        stats(static_cast<size_t>(rows * each.floats), std::numeric_limits<float>::quiet_NaN()),
        kept(static_cast<size_t>(rows * each.ints), kUnset) {}

  // Whether what lies behind the share's rows, up to the next sequence's, is as it was.
  bool intact(const KernelTask& task) const {
    const SavedPerRow own = task.kernel->saved(*task.problem);
    const int64_t heads = task.problem->num_heads;
    bool all = true;
    for (const Sequence& s : task.problem->sequences) {
      const int64_t begin = s.q_begin * heads, rows = s.q_length * heads;
      for (int64_t i = begin * room.floats + rows * own.floats; i < (begin + rows) * room.floats; ++i) {
        all = all && std::isnan(stats[static_cast<size_t>(i)]);
      }
      for (int64_t i = begin * room.ints + rows * own.ints; i < (begin + rows) * room.ints; ++i) {
        all = all && kept[static_cast<size_t>(i)] == kUnset;
      }
    }
    return all;
  }
};

template <class T>
Rows<T> floats_of(const Array& array) {
  const auto rows = array.rows<std::conditional_t<std::is_const_v<T>, const void, void>>();
  return {static_cast<T*>(rows.data), rows.token_stride, rows.head_stride};
}

GivenLists lists_of(const AttentionProblem& problem, const Inputs& in) {
  if (!problem.given.any()) return {};
  const int64_t count = problem.given.count;
  return {in.given.data(), problem.list_heads() * count, problem.given.by_head() ? count : 0};
}

AttentionForward forward_of(const AttentionProblem& problem, const Inputs& in, const Results& results, Saved& saved) {
  AttentionForward forward;
  forward.q = in.q.rows<const void>();
  forward.k = in.k.rows<const void>();
  forward.v = in.v.rows<const void>();
  forward.out = results.out.rows<void>();
  forward.scale = in.scale;
  forward.alpha = in.alpha.data();
  forward.stats = saved.stats.data();
  forward.kept = saved.kept.data();
  forward.saved = saved.room;
  forward.random = in.random;
  forward.given = lists_of(problem, in);
  const OffsetRanges& has = problem.offsets;
  if (has.by_head.count > 0) forward.terms.by_head = in.by_head.data();
  if (has.by_query.count > 0) forward.terms.by_query = floats_of<const float>(in.by_query);
  if (has.product.count > 0) {
    forward.terms.queries = in.queries.rows<const void>();
    forward.terms.rows = in.rows.rows<const void>();
    if (in.rows.heads() == 1) forward.terms.rows.head_stride = 0;
  }
  if (has.sums.count > 0) forward.terms.sums = floats_of<float>(results.sums);
  return forward;
}

AttentionBackward backward_of(const AttentionProblem& problem, const AttentionForward& forward, const Inputs& in,
                              Results& results) {
  AttentionBackward backward;
  backward.q = forward.q;
  backward.k = forward.k;
  backward.v = forward.v;
  backward.out = results.out.rows<const void>();
  backward.grad_out = in.grad_out.rows<const void>();
  backward.grad_q = results.grad_q.rows<void>();
  backward.grad_k = results.grad_k.rows<void>();
  backward.grad_v = results.grad_v.rows<void>();
  backward.scale = in.scale;
  backward.alpha = in.alpha.data();
  backward.grad_alpha = results.grad_alpha.data();
  backward.stats = forward.stats;
  backward.kept = forward.kept;
  backward.saved = forward.saved;
  backward.random = in.random;
  backward.given = forward.given;
  backward.terms = forward.terms;
  const OffsetRanges& has = problem.offsets;
  OffsetGradients& grads = backward.grad_terms;
  if (has.by_head.count > 0) grads.by_head = results.grad_by_head.data();
  if (has.by_query.count > 0) grads.by_query = floats_of<float>(results.grad_by_query);
  if (has.product.count > 0) {
    grads.queries = results.grad_queries.rows<void>();
    grads.rows = results.grad_rows.data();
  }
  if (has.sums.count > 0) grads.sums = floats_of<const float>(in.grad_sums);
  return backward;
}

Results unwritten(const AttentionProblem& problem, const Inputs& in, Layout layout) {
  const auto like = [&](const Array& a) {
    Array out(problem.dtype, layout, a.tokens(), a.heads(), a.width());
    out.fill(12345);  // must be overwritten
    return out;
  };
  Results results{like(in.q), like(in.q), like(in.k), like(in.v), std::vector<float>(in.alpha.size(), 12345)};
  const auto floats = [&](int64_t width) {
    Array out(DType::kFloat32, layout, in.q.tokens(), in.q.heads(), width);
    out.fill(12345);
    return out;
  };
  const OffsetRanges& has = problem.offsets;
  if (has.sums.count > 0) results.sums = floats(has.sums.count);
  if (has.by_query.count > 0) results.grad_by_query = floats(has.by_query.count);
  if (has.product.count > 0) results.grad_queries = like(in.queries);
  results.grad_by_head.assign(in.by_head.size(), 12345);
  results.grad_rows.assign(static_cast<size_t>(has.product.count * problem.num_heads * problem.head_dim), 12345);
  return results;
}

}  // namespace

Results run_kernel(const Kernel& kernel, const AttentionProblem& problem, const Inputs& in, Layout layout,
                   Executor& executor) {
  Results results = unwritten(problem, in, layout);
  const SavedPerRow own = kernel.saved(problem);
  Saved saved(in.q.tokens() * in.q.heads(), {own.floats + 1, own.ints + 2});
  const AttentionForward forward = forward_of(problem, in, results, saved);
  kernel.forward(problem, forward, executor);
  if (!problem.needs_backward) return results;
  results.saved_intact = saved.intact({&kernel, &problem});
  kernel.backward(problem, backward_of(problem, forward, in, results), executor);
  return results;
}

Results run_divided(const AttentionProblem& problem, const Inputs& in, Layout layout, Executor& executor) {
  Results results = unwritten(problem, in, layout);
  Saved saved(in.q.tokens() * in.q.heads(), saved_at_most(problem));
  const AttentionForward forward = forward_of(problem, in, results, saved);
  const KernelChoice choice(problem);
  choice.forward(forward, executor);
  if (!problem.needs_backward) return results;
  for (const KernelTask& task : choice.tasks()) results.saved_intact = results.saved_intact && saved.intact(task);
  choice.backward(backward_of(problem, forward, in, results), executor);
  return results;
}

namespace {

std::vector<double> rows_of(const Array& array, int64_t begin, int64_t length, int64_t head) {
  std::vector<double> out;
  for (int64_t t = begin; t < begin + length; ++t)
    for (int64_t i = 0; i < array.width(); ++i) out.push_back(array.get(t, head, i));
  return out;
}

OracleOffsets offsets_of(const OffsetRange& range, std::vector<double> values) {
  return {range.first, range.count, range.count > 0 ? std::move(values) : std::vector<double>{}};
}

OracleTerms terms_of(const AttentionProblem& problem, const Inputs& in, const Sequence& s, int64_t head) {
  const OffsetRanges& has = problem.offsets;
  const auto of_queries = [&](const Array& array) { return rows_of(array, s.q_begin, s.q_length, head); };
  OracleTerms terms;
  if (has.by_head.count > 0) {
    const auto begin = in.by_head.begin() + head * has.by_head.count;
    terms.by_head = offsets_of(has.by_head, {begin, begin + has.by_head.count});
  }
  if (has.by_query.count > 0) terms.by_query = offsets_of(has.by_query, of_queries(in.by_query));
  if (has.product.count > 0) {
    terms.rows = offsets_of(has.product, rows_of(in.rows, 0, has.product.count, in.rows.heads() == 1 ? 0 : head));
    terms.queries = of_queries(in.queries);
  }
  terms.sums = offsets_of(has.sums, {});
  return terms;
}

std::vector<double> dropout_factors(const AttentionProblem& problem, const RandomStream& random, const Sequence& s,
                                    int64_t head) {
  std::vector<double> out;
  const uint32_t threshold = dropout_threshold(problem.dropout);
  for (int64_t i = 0; i < s.q_length; ++i) {
    const uint32_t key = dropout_row_key(random.dropout_key, random.first_head + head, s.q_begin + i);
    for (int64_t j = 0; j < s.k_length; ++j) {
      const bool keeps = dropout_keeps(key, static_cast<uint32_t>(j), threshold);
      out.push_back(keeps ? dropout_scale(problem.dropout) : 0);
    }
  }
  return out;
}

// Pairs that come with the call, as a mask [q_length, k_length].
std::vector<bool> given_pairs(const AttentionProblem& problem, const Inputs& in, const Sequence& s, int64_t head) {
  std::vector<bool> mask(static_cast<size_t>(s.q_length * s.k_length));
  const GivenLists lists = lists_of(problem, in);
  const int64_t block = problem.given.block, list_head = problem.list_head(head);
  for (int64_t i = 0; i < s.q_length; ++i) {
    const int32_t* list = lists.data + (s.q_begin + i) * lists.token_stride + list_head * lists.head_stride;
    for (int64_t e = 0; e < problem.given.count && list[e] >= 0; ++e) {
      for (int64_t j = list[e] * block; j < std::min((list[e] + 1) * block, s.k_length); ++j) {
        mask[static_cast<size_t>(i * s.k_length + j)] = true;
      }
    }
  }
  return mask;
}

}  // namespace

OracleInput one_head(const AttentionProblem& problem, const Inputs& in, size_t sequence, int64_t head) {
  const Sequence& s = problem.sequences[sequence];
  OracleInput out;
  out.spec = problem.spec;
  out.kind = problem.kind;
  out.num_queries = s.q_length;
  out.num_keys = s.k_length;
  out.head_dim = problem.head_dim;
  out.q = rows_of(in.q, s.q_begin, s.q_length, head);
  out.k = rows_of(in.k, s.k_begin, s.k_length, problem.key_head(head));
  out.v = rows_of(in.v, s.k_begin, s.k_length, problem.key_head(head));
  out.scale = in.scale;
  out.alpha = in.alpha[static_cast<size_t>(head)];
  out.stream = pattern_stream(in.random.seed, in.random.layer, in.random.first_head + head);
  out.terms = terms_of(problem, in, s, head);
  if (problem.dropout > 0) out.factor = dropout_factors(problem, in.random, s, head);
  if (problem.given.any()) out.given = given_pairs(problem, in, s, head);
  return out;
}

HeadCotangents cotangents_of(const AttentionProblem& problem, const Inputs& in, size_t sequence, int64_t head) {
  const Sequence& s = problem.sequences[sequence];
  HeadCotangents given{rows_of(in.grad_out, s.q_begin, s.q_length, head), {}};
  if (problem.offsets.sums.count > 0) given.sums = rows_of(in.grad_sums, s.q_begin, s.q_length, head);
  return given;
}

std::vector<double> of_head(const std::vector<float>& all, const AttentionProblem& problem, int64_t head,
                            int64_t width) {
  std::vector<double> out;
  const int64_t step = problem.num_heads * width;
  for (int64_t begin = head * width; begin < std::ssize(all); begin += step) {
    for (int64_t i = begin; i < begin + width; ++i) out.push_back(all[static_cast<size_t>(i)]);
  }
  return out;
}

std::string describe(const AttentionProblem& problem) {
  std::string out =
      cat(print(problem.spec), " ", name_of(problem.kind), " ", name_of(problem.dtype), " heads ", problem.num_heads,
          " head_dim ", problem.head_dim, " dropout ", problem.dropout,
          problem.keys.any() ? cat(" key heads ", problem.num_key_heads(), " after ", problem.keys.skipped) : "",
          problem.needs_backward ? " with" : " without", " backward");
  const auto add = [&](const char* name, const OffsetRange& range) {
    if (range.count > 0) out += cat(", ", name, " from ", range.first, " to ", range.first + range.count - 1);
  };
  add("by head", problem.offsets.by_head), add("by query", problem.offsets.by_query);
  add("product", problem.offsets.product), add("sums", problem.offsets.sums);
  if (const GivenPairs& given = problem.given; given.any()) {
    out += cat(", lists of ", given.count, " by ", given.block,
               given.heads == ListHeads::kShared   ? ""
               : given.heads == ListHeads::kOfKeys ? " of each key head"
                                                   : " of each head");
  }
  out += ", queries x keys:";
  for (const Sequence& s : problem.sequences) out += cat(" ", s.q_length, "x", s.k_length);
  return out;
}

}  // namespace fovea::kernels::testing_suite
