#include "fovea/search/top_n.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/search/top_n.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace fovea::search::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The n best so far, best first; tokens come in rising order, so equals go behind.
struct Sorted {
  Candidate* best;
  int64_t n, count = 0;

  float least() const { return best[n - 1].log_prob; }
  void insert(Candidate next) {
    int64_t place = count < n ? count++ : n - 1;
    for (; place > 0 && best[place - 1].log_prob < next.log_prob; --place) best[place] = best[place - 1];
    best[place] = next;
  }
  void finish() {}
};

// The same for many, whose moves would cost more than all else: a heap, in order at the end only.
struct Heap {
  Candidate* best;
  int64_t n, count = 0;

  static bool is_better(const Candidate& a, const Candidate& b) {
    return a.log_prob > b.log_prob || (a.log_prob == b.log_prob && a.token < b.token);
  }
  float least() const { return best[0].log_prob; }
  void insert(Candidate next) {
    if (count == n) {
      std::pop_heap(best, best + n, is_better);
    } else {
      ++count;
    }
    best[count - 1] = next;
    std::push_heap(best, best + count, is_better);
  }
  void finish() { std::sort_heap(best, best + n, is_better); }
};

// The n greatest of a row, by falling value: most vectors hold nothing above the n-th and cost one comparison.
template <class Best>
void select_best(const float* row, int64_t vocabulary, Best best) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i < vocabulary && best.count < best.n; ++i) best.insert({static_cast<int32_t>(i), row[i]});
  for (; i + lanes <= vocabulary; i += lanes) {
    const auto above = hn::Gt(hn::LoadU(d, row + i), hn::Set(d, best.least()));
    if (HWY_LIKELY(hn::AllFalse(d, above))) continue;
    for (int64_t j = i; j < i + lanes; ++j) {
      if (row[j] > best.least()) best.insert({static_cast<int32_t>(j), row[j]});
    }
  }
  for (; i < vocabulary; ++i) {
    if (row[i] > best.least()) best.insert({static_cast<int32_t>(i), row[i]});
  }
  best.finish();
}

// log of the sum of exp(row - greatest); sums of lanes in a fixed order. NaN if the row has one: Exp() makes 0 of it.
float log_sum_exp(const float* row, int64_t vocabulary, float greatest) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto shift = hn::Set(d, greatest);
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  auto nan = hn::FirstN(d, 0);
  int64_t i = 0;
  for (; i + 2 * lanes <= vocabulary; i += 2 * lanes) {
    const auto x0 = hn::LoadU(d, row + i), x1 = hn::LoadU(d, row + i + lanes);
    nan = hn::Or(nan, hn::Or(hn::IsNaN(x0), hn::IsNaN(x1)));
    sum0 = hn::Add(sum0, hn::Exp(d, hn::Sub(x0, shift)));
    sum1 = hn::Add(sum1, hn::Exp(d, hn::Sub(x1, shift)));
  }
  if (!hn::AllFalse(d, nan)) return std::numeric_limits<float>::quiet_NaN();
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < vocabulary; ++i) sum += std::exp(row[i] - greatest);
  return greatest + static_cast<float>(std::log(sum));
}

bool words_of_row(const float* row, int64_t vocabulary, int64_t n, int64_t eos, Candidate* best, float* eos_log_prob) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  constexpr int64_t kMostSorted = 64;
  if (n > kMostSorted) {
    select_best(row, vocabulary, Heap{best, n});
  } else {
    select_best(row, vocabulary, Sorted{best, n});
  }
  const float log_sum = log_sum_exp(row, vocabulary, best[0].log_prob);
  const bool finite = std::isfinite(log_sum);
  for (int64_t i = 0; i < n; ++i) {
    best[i] =
        finite ? Candidate{best[i].token, best[i].log_prob - log_sum} : Candidate{static_cast<int32_t>(i), kNever};
  }
  *eos_log_prob = finite ? row[eos] - log_sum : kNever;
  return finite;
}

}  // namespace fovea::search::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::search {
namespace {
HWY_EXPORT(words_of_row);
}  // namespace

int64_t top_n_log_softmax(const Logits& logits, const TopN& out, Executor& executor) {
  std::atomic<int64_t> bad = 0;
  constexpr int64_t kRowsAPiece = 8;
  const int64_t pieces = (logits.rows + kRowsAPiece - 1) / kRowsAPiece;
  executor.run(pieces, [&](int64_t piece, int) {
    const int64_t end = std::min(logits.rows, (piece + 1) * kRowsAPiece);
    for (int64_t r = piece * kRowsAPiece; r < end; ++r) {
      const float* row = logits.data + r * logits.vocabulary;
      const bool good = HWY_DYNAMIC_DISPATCH(words_of_row)(row, logits.vocabulary, out.n, out.eos, out.best + r * out.n,
                                                           out.eos_log_prob + r);
      if (!good) ++bad;
    }
  });
  return bad;
}

}  // namespace fovea::search
#endif  // HWY_ONCE
