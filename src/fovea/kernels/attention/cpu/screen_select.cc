#include "fovea/kernels/attention/cpu/screen_select.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fovea::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Estimates for inputs that are normal or little trained.
constexpr int64_t kSparseSupport = 16;  // of sparsemax
constexpr int64_t kWideSupport = 150;   // of entmax below alpha 2

int64_t total(const std::vector<Span>& spans) {
  int64_t keys = 0;
  for (const Span& span : spans) keys += span.end - span.begin;
  return keys;
}

// The spans of a without those of b, both sorted and disjoint.
void subtract(const std::vector<Span>& a, const std::vector<Span>& b, std::vector<Span>& out) {
  out.clear();
  size_t j = 0;
  for (Span span : a) {
    while (j < b.size() && b[j].end <= span.begin) ++j;
    for (size_t i = j; i < b.size() && b[i].begin < span.end; ++i) {
      if (span.begin < b[i].begin) out.push_back({span.begin, b[i].begin});
      span.begin = std::max(span.begin, b[i].end);
    }
    if (span.begin < span.end) out.push_back(span);
  }
}

void intersect(const std::vector<Span>& a, const std::vector<Span>& b, std::vector<Span>& out) {
  out.clear();
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Span both = {std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (both.begin < both.end) out.push_back(both);
    (a[i].end < b[j].end ? i : j) += 1;
  }
}

bool has_nan(const float* values, int64_t count) {
  float poison = 0;
  for (int64_t i = 0; i < count; ++i) poison += std::isnan(values[i]) ? 1 : 0;
  return poison != 0;
}

void add_scores(const RowScores& s, int64_t first, RowList& list) {
  if (first == list.count) return;
  screen_ops().dots({s.rows, s.width, list.keys + first, list.count - first}, s.x, s.scale, list.values + first);
  if (!s.terms.any()) return;
  for (int64_t i = first; i < list.count; ++i) list.values[i] = s.terms.added_to(list.values[i], list.keys[i]);
}

// Drops the keys that a term by offset leaves out, whose scores are minus infinity. A NaN stays visible.
void drop_left_out(const RowScores& scores, RowList& list) {
  if (!scores.terms.any() || has_nan(list.values, list.count)) return;
  list.count = screen_ops().prune(std::numeric_limits<float>::lowest(), list.values, list.keys, list.count);
}

// Adds the keys that stay. The order of the list is that of the keys, first the competing ones.
void add_kept(const RowScores& scores, const RowKeys& keys, RowList& list) {
  const int64_t first = list.count;
  list.count = list_keys(keys.stay, list.keys, first);
  add_scores(scores, first, list);
  drop_left_out(scores, list);
}

// Drops competing keys below the threshold, then adds the keys that stay.
void choose(const RowScores& scores, const RowKeys& keys, float threshold, RowList& list) {
  if (threshold > -kInfinity) list.count = screen_ops().prune(threshold, list.values, list.keys, list.count);
  add_kept(scores, keys, list);
}

void scale_values(RowList& list, float factor) {
  for (int64_t i = 0; i < list.count; ++i) list.values[i] *= factor;
}

// Drops keys without a weight: they have no gradient either, and their values may be infinite. A NaN stays visible.
void drop_zeros(RowList& list) {
  if (has_nan(list.values, list.count)) return;
  list.count = screen_ops().prune(std::numeric_limits<float>::denorm_min(), list.values, list.keys, list.count);
}

void to_weights(const ScreenSelection& selection, const RowStats& stats, RowList& list) {
  const ScreenOps& ops = screen_ops();
  switch (selection.shape) {
    case WeightShape::kSoftmax:
      ops.exponentials(list.values, list.count, stats.center);
      scale_values(list, stats.norm);
      break;
    case WeightShape::kEntmax:
      ops.entmax_weights(selection.power, {.values = list.values, .count = list.count, .top = stats.center}, stats.norm,
                         stats.blend);
      break;
    case WeightShape::kRelu:
      break;
    default:
      return;
  }
  drop_zeros(list);
}

// Turns scores into weights for the first time. least_mu: as in select_row().
RowStats solve(const ScreenSelection& selection, RowList& list, float least_mu) {
  const ScreenOps& ops = screen_ops();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  RowStats stats;
  stats.center = has_nan(list.values, list.count) ? nan : ops.greatest(list.values, list.count);
  if (selection.shape == WeightShape::kSoftmax) {
    if (selection.sink) stats.center = std::max(stats.center, *selection.sink);  // a NaN stays: the first argument
    const float of_sink = selection.sink ? std::exp(*selection.sink - stats.center) : 0;
    stats.norm = 1 / (ops.exponentials(list.values, list.count, stats.center) + of_sink);
    scale_values(list, stats.norm);
    drop_zeros(list);
    return stats;
  }
  if (selection.shape == WeightShape::kEntmax) {
    const EntmaxScores row = {.values = list.values, .count = list.count, .top = stats.center, .start = least_mu};
    stats.norm = std::isfinite(stats.center) ? ops.entmax_root(selection.power, row) : nan;
    if (selection.power.is_steep()) stats.blend = ops.entmax_blend(selection.power, row, stats.norm);
  }
  to_weights(selection, stats, list);
  return stats;
}

}  // namespace

float greatest_magnitude(const float* values, int64_t count) {
  float most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float magnitude = std::abs(values[i]);
    most = magnitude <= kInfinity ? std::max(most, magnitude) : kInfinity;
  }
  return most;
}

ScreenTerms terms_of(const AttentionProblem& problem, const OffsetTerms& terms, const Piece& piece, int64_t query,
                     float most_by_head) {
  const OffsetRanges& has = problem.offsets;
  const Sequence& s = *piece.sequence;
  ScreenTerms row = {.by_head_range = has.by_head, .by_query_range = has.by_query};
  row.position = query + s.k_length - s.q_length;
  if (has.by_head.count > 0) row.by_head = terms.by_head + piece.head * has.by_head.count;
  row.most = most_by_head;
  if (has.by_query.count == 0) return row;
  const Rows<const float>& rows = terms.by_query;
  row.by_query = rows.data + (s.q_begin + query) * rows.token_stride + piece.head * rows.head_stride;
  row.most += greatest_magnitude(row.by_query, has.by_query.count);
  return row;
}

ScreenSelection selection_of(const AttentionSpec& spec, const float* alpha) {
  ScreenSelection selection;
  if (const TopK* top = spec.top_k()) selection.k = top->k;
  if (std::holds_alternative<Sparsemax>(spec.transform)) selection.shape = WeightShape::kEntmax;
  if (const auto* entmax = std::get_if<Entmax>(&spec.transform)) {
    selection.learned = entmax->learned;
    const double of_head = entmax->learned && alpha != nullptr ? *alpha : entmax->alpha;
    selection.shape = of_head == 1 ? WeightShape::kSoftmax : WeightShape::kEntmax;
    if (of_head != 1) selection.power = EntmaxPower(of_head);
  }
  if (const auto* sink = std::get_if<Sink>(&spec.transform)) {
    selection.learned = sink->learned;
    if (!sink->learned || alpha != nullptr) selection.sink = sink_of(spec.transform, alpha, 0);
  }
  if (is_pointwise(spec.transform)) {
    const bool is_relu = std::holds_alternative<Relu>(spec.transform);
    selection.shape = is_relu ? WeightShape::kRelu : WeightShape::kPointwise;
    selection.pointwise = spec.transform;
  }
  return selection;
}

int64_t selected_per_row(const AttentionSpec& spec) {
  if (const TopK* top = spec.top_k()) return top->k;
  const auto* entmax = std::get_if<Entmax>(&spec.transform);
  const bool projects = entmax == nullptr || (!entmax->learned && entmax->alpha >= 2);
  return projects ? kSparseSupport : kWideSupport;
}

int64_t RowKeys::num_compete() const { return total(compete); }
int64_t RowKeys::num_stay() const { return total(stay); }

void find_keys(const AttentionSpec& spec, const Row& row, RowKeys& keys) {
  keys.compete.clear();
  keys.stay.clear();
  if (row.limit() <= 0) return;
  if (spec.pairs().is_full()) {
    keys.compete.push_back({0, row.limit()});
  } else {
    keys.compete = spans(spec.pairs(), row);
  }
  if (!spec.keep) return;
  const std::vector<Span> all = keys.compete, keep = spans(*spec.keep, row);
  intersect(all, keep, keys.stay);
  subtract(all, keep, keys.compete);
}

int64_t list_keys(const std::vector<Span>& spans, int32_t* list, int64_t count) {
  for (const Span& span : spans) {
    for (int64_t key = span.begin; key < span.end; ++key) list[count++] = static_cast<int32_t>(key);
  }
  return count;
}

RowStats select_row(const ScreenSelection& selection, const RowScores& scores, const RowKeys& keys, RowList& list,
                    float least_mu) {
  float threshold = -kInfinity;
  if (list.threshold) {
    threshold = *list.threshold;
    add_kept(scores, keys, list);
  } else {
    add_scores(scores, 0, list);
    // The threshold is also set for exactly k candidates: other keys may compete below them.
    if (selection.k > 0 && list.count >= selection.k && !has_nan(list.values, list.count)) {
      threshold = screen_ops().kth_greatest(list.values, list.count, selection.k);
    }
    choose(scores, keys, threshold, list);
  }
  RowStats stats = solve(selection, list, least_mu);
  stats.threshold = threshold;
  return stats;
}

void recompute_row(const ScreenSelection& selection, const RowScores& scores, const RowKeys& keys,
                   const RowStats& stats, RowList& list) {
  add_scores(scores, 0, list);
  choose(scores, keys, stats.threshold, list);
  to_weights(selection, stats, list);
}

// Calls work(transform) with the selection's pointwise transform.
template <class Work>
void with_pointwise(const ScreenSelection& selection, Work&& work) {
  std::visit(
      [&]<class T>(const T& transform) {
        if constexpr (T::kPointwise) work(transform);
      },
      selection.pointwise);
}

void saved_to_weights(const ScreenSelection& selection, const float* saved, int64_t count, float* weights) {
  if (!selection.saves_scores()) {
    std::copy_n(saved, count, weights);
    return;
  }
  with_pointwise(selection, [&](const auto& transform) {
    for (int64_t i = 0; i < count; ++i) weights[i] = transform.weight(saved[i]);
  });
}

RowWeights row_weights(const ScreenSelection& selection, const float* values, int64_t count, float* scratch) {
  if (selection.shape == WeightShape::kSoftmax) return {values, values, count};
  if (selection.shape != WeightShape::kEntmax) return {values, nullptr, count};
  screen_ops().entmax_derivatives(selection.power, values, count, scratch);
  return {values, scratch, count};
}

double sink_weight(const ScreenSelection& selection, const RowStats& stats) {
  return selection.sink ? std::exp(double{*selection.sink} - stats.center) * stats.norm : 0;
}

// ds = U (dp - sum(U dp) / sum U). U is p^(2 - alpha) for entmax, and p for softmax, whose sum is 1 up to rounding with
// that of the sink.
double gradient_mean(const RowWeights& row, const float* gradients) {
  if (row.derivatives == nullptr) return 0;
  // Four separate sums, because a single one would wait for each addition.
  constexpr int64_t kSums = 4;
  double mass[kSums] = {}, moment[kSums] = {};
  const auto add = [&](int64_t i, int64_t to) {
    mass[to] += row.derivatives[i];
    moment[to] += double{row.derivatives[i]} * gradients[i];
  };
  int64_t i = 0;
  for (; i + kSums <= row.count; i += kSums) {
    for (int64_t j = 0; j < kSums; ++j) add(i + j, j);
  }
  for (; i < row.count; ++i) add(i, 0);
  const double all = (mass[0] + mass[1]) + (mass[2] + mass[3]) + row.sink;
  return all == 0 ? 0 : ((moment[0] + moment[1]) + (moment[2] + moment[3])) / all;
}

void score_gradients(const ScreenSelection& selection, const RowWeights& row, double mean, float* gradients) {
  const auto [values, derivatives, count, sink] = row;
  const auto row_mean = static_cast<float>(mean);
  switch (selection.shape) {
    case WeightShape::kSoftmax:
    case WeightShape::kEntmax:
      for (int64_t i = 0; i < count; ++i) gradients[i] = derivatives[i] * (gradients[i] - row_mean);
      return;
    case WeightShape::kRelu:  // only positive scores are listed
      return;
    case WeightShape::kPointwise:
      with_pointwise(selection, [&](const auto& transform) {
        for (int64_t i = 0; i < row.count; ++i) gradients[i] *= transform.slope(row.values[i]);
      });
      return;
  }
}

// For entmax like EntmaxAlpha in entmax-inl.h, where the names are explained. The sink's value, and so its gradient, is
// 0.
double learned_gradient(const ScreenSelection& selection, const RowWeights& row, double mean, const float* gradients) {
  if (selection.sink) return -row.sink * mean;
  const double b = selection.power.slope;
  double mass = 0, sum_q = 0, sum_r = 0, sum_pl = 0, grad_p = 0, grad_q = 0, grad_r = 0, grad_pl = 0;
  for (int64_t i = 0; i < row.count; ++i) {
    const double p = row.values[i], grad = gradients[i] - mean;
    if (p == 0) continue;
    // U - p, bounded as U is
    const double log_p = std::log(p), difference = std::min(p * std::expm1(-b * log_p), kMostEntmaxDerivative);
    const double pl = p * log_p, q = (difference + b * pl) / (b * b), r = -difference / b;
    mass += row.derivatives[i], sum_q += q, sum_r += r, sum_pl += pl;
    grad_p += grad * p, grad_q += grad * q, grad_r += grad * r, grad_pl += grad * pl;
  }
  return mass == 0 ? 0 : (sum_q * grad_p - grad_q + sum_r * grad_pl - sum_pl * grad_r) / mass;
}

}  // namespace fovea::kernels
