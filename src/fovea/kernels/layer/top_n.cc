#include "fovea/kernels/layer/top_n.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

namespace fovea::kernels {
namespace {

bool is_better(const Candidate& a, const Candidate& b) {
  return a.log_prob > b.log_prob || (a.log_prob == b.log_prob && a.token < b.token);
}

// The n greatest of a row, by falling value, in a heap with the least of them in front. Tokens come in rising order, so
// an equal one stays out.
void select_best(const float* row, int64_t vocabulary, int64_t n, Candidate* best) {
  for (int64_t i = 0; i < n; ++i) best[i] = {static_cast<int32_t>(i), row[i]};
  std::make_heap(best, best + n, is_better);
  for (int64_t i = n; i < vocabulary; ++i) {
    if (!(row[i] > best[0].log_prob)) continue;
    std::pop_heap(best, best + n, is_better);
    best[n - 1] = {static_cast<int32_t>(i), row[i]};
    std::push_heap(best, best + n, is_better);
  }
  std::sort_heap(best, best + n, is_better);
}

// NaN if the row has one.
float log_sum_exp(const float* row, int64_t vocabulary, float greatest) {
  double sum = 0;
  for (int64_t i = 0; i < vocabulary; ++i) sum += std::exp(row[i] - greatest);
  return greatest + static_cast<float>(std::log(sum));
}

// Whether row r has a log-softmax.
bool find_words(const Logits& logits, const TopN& out, int64_t r) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const float* row = logits.data + r * logits.vocabulary;
  Candidate* best = out.best + r * out.n;
  select_best(row, logits.vocabulary, out.n, best);
  const float log_sum = log_sum_exp(row, logits.vocabulary, best[0].log_prob);
  const bool finite = std::isfinite(log_sum);
  for (int64_t i = 0; i < out.n; ++i) {
    best[i] =
        finite ? Candidate{best[i].token, best[i].log_prob - log_sum} : Candidate{static_cast<int32_t>(i), kNever};
  }
  out.eos_log_prob[r] = finite ? row[out.eos] - log_sum : kNever;
  if (out.asked_offsets == nullptr) return finite;
  for (int64_t i = out.asked_offsets[r]; i < out.asked_offsets[r + 1]; ++i)
    out.asked_log_probs[i] = finite ? row[out.asked[i]] - log_sum : kNever;
  return finite;
}

}  // namespace

int64_t top_n_log_softmax(const Logits& logits, const TopN& out, Executor& executor) {
  std::atomic<int64_t> bad = 0;
  constexpr int64_t kRowsAPiece = 8;
  const int64_t pieces = (logits.rows + kRowsAPiece - 1) / kRowsAPiece;
  executor.run(pieces, [&](int64_t piece, int) {
    const int64_t end = std::min(logits.rows, (piece + 1) * kRowsAPiece);
    for (int64_t r = piece * kRowsAPiece; r < end; ++r) bad += find_words(logits, out, r) ? 0 : 1;
  });
  return bad;
}

}  // namespace fovea::kernels
