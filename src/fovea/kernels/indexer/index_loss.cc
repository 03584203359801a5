#include "fovea/kernels/indexer/index_loss.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "fovea/kernels/attention/cpu/screen_ops.h"

namespace fovea::kernels {
namespace {

constexpr int64_t kTargetQueries = 32;  // of a piece
constexpr int64_t kRoom = 16;           // what exact products write behind their last number

struct TargetScratch {
  explicit TargetScratch(int64_t count)
      : list(count), weights(aligned<float>(count + kRoom)), sums(aligned<float>(count + kRoom)) {}
  ChosenList list;
  Aligned<float> weights, sums;
};

void target_row(const IndexTarget& job, const ScreenOps& ops, int64_t query, TargetScratch& scratch) {
  const ChosenKeys& chosen = job.chosen;
  scratch.list.read(chosen.indices + query * chosen.count, chosen.count);
  const int64_t size = scratch.list.size(), group = job.heads / job.key_heads;
  float* out = job.weights + query * chosen.count;
  std::fill_n(out, chosen.count, 0.0F);
  if (size == 0) return;
  float *weights = scratch.weights.get(), *sums = scratch.sums.get();
  std::fill_n(sums, size, 0.0F);
  for (int64_t h = 0; h < job.heads; ++h) {
    const int64_t key_head = query / chosen.queries * job.key_heads + h / group;
    const ListedRows rows{job.k + key_head * chosen.keys * job.width, job.width, scratch.list.keys(), size};
    ops.dots(rows, job.q + (query * job.heads + h) * job.width, job.scale, weights);
    const float greatest = *std::max_element(weights, weights + size);
    const float inverse = 1 / (ops.exponentials(weights, size, greatest) * static_cast<float>(job.heads));
    for (int64_t i = 0; i < size; ++i) sums[i] += weights[i] * inverse;
  }
  const int32_t* places = scratch.list.places();
  for (int64_t i = 0; i < size; ++i) out[places[i]] = sums[i];
}

}  // namespace

void index_target(const IndexTarget& job, Executor& executor) {
  const ScreenOps& ops = screen_ops();
  const int64_t queries = job.chosen.batch * job.chosen.queries;
  std::vector<std::unique_ptr<TargetScratch>> scratch(static_cast<size_t>(executor.num_threads()));
  executor.run((queries + kTargetQueries - 1) / kTargetQueries, [&](int64_t piece, int worker) {
    std::unique_ptr<TargetScratch>& own = scratch[static_cast<size_t>(worker)];
    if (!own) own = std::make_unique<TargetScratch>(job.chosen.count);
    for (int64_t i = piece * kTargetQueries; i < std::min((piece + 1) * kTargetQueries, queries); ++i)
      target_row(job, ops, i, *own);
  });
}

// ---- the loss ----

namespace {

constexpr int64_t kMostHeld = int64_t{1} << 20;  // numbers of a block of queries
constexpr int64_t kMostQueries = 256;            // of a block
constexpr int64_t kLeastKeys = 64;               // of a range of keys that a thread adds to
constexpr int64_t kLossQueries = 16;             // of a piece

// The results of the first pass over a block, for each query; the gradient of keys needs them.
struct LossRow {
  explicit LossRow(const IndexLoss& job)
      : list(job.chosen.count), grads(aligned<float>(job.heads * (job.chosen.count + kRoom))) {}
  ChosenList list;
  Aligned<float> grads;  // [heads, count + kRoom], of the products
  int64_t size = 0;      // chosen keys; 0 if the query does not count
  double loss = 0;
};

struct LossScratch {
  explicit LossScratch(int64_t count)
      : scores(aligned<float>(count + kRoom)), softmax(aligned<float>(count + kRoom)), target(aligned<float>(count)) {}
  Aligned<float> scores, softmax, target;
};

class LossPass {
 public:
  LossPass(const IndexLoss& job, Executor& executor)
      : job_(job), executor_(executor), scratch_(static_cast<size_t>(executor.num_threads())) {
    const int64_t each = job.heads * (job.chosen.count + kRoom);
    block_ = std::clamp<int64_t>(kMostHeld / each, kLossQueries, kMostQueries);
    for (int64_t i = 0; i < std::min(block_, job.chosen.queries); ++i) rows_.emplace_back(job);
  }

  IndexLossSum run() {
    for (int64_t b = 0; b < job_.chosen.batch; ++b) {
      for (int64_t first = 0; first < job_.chosen.queries; first += block_)
        add_block(b, first, std::min(block_, job_.chosen.queries - first));
    }
    return sum_;
  }

 private:
  void add_block(int64_t sequence, int64_t first, int64_t count) {
    executor_.run((count + kLossQueries - 1) / kLossQueries, [&](int64_t piece, int worker) {
      std::unique_ptr<LossScratch>& own = scratch_[static_cast<size_t>(worker)];
      if (!own) own = std::make_unique<LossScratch>(job_.chosen.count);
      for (int64_t i = piece * kLossQueries; i < std::min((piece + 1) * kLossQueries, count); ++i)
        score(sequence, first + i, rows_[static_cast<size_t>(i)], *own);
    });
    for (int64_t i = 0; i < count; ++i) {
      const LossRow& row = rows_[static_cast<size_t>(i)];
      sum_.loss += row.loss, sum_.queries += row.size > 0 ? 1 : 0;
    }
    if (job_.grad_k != nullptr) add_keys(sequence, first, count);
  }

  // Each thread adds to keys of its own, query after query: the order does not depend on threads.
  void add_keys(int64_t sequence, int64_t first, int64_t count) {
    const int64_t keys = job_.chosen.keys;
    const int64_t ranges = std::clamp<int64_t>(keys / kLeastKeys, 1, 4 * int64_t{executor_.num_threads()});
    executor_.run(ranges, [&](int64_t range, int) {
      const auto low = static_cast<int32_t>(keys * range / ranges),
                 high = static_cast<int32_t>(keys * (range + 1) / ranges);
      for (int64_t i = 0; i < count; ++i) {
        const LossRow& row = rows_[static_cast<size_t>(i)];
        const int32_t* list = row.list.keys();
        const int64_t from = std::lower_bound(list, list + row.size, low) - list;
        const int64_t to = std::lower_bound(list + from, list + row.size, high) - list;
        const ListedSums sums{job_.grad_k + sequence * keys * job_.width, job_.width, 0, list + from, to - from};
        const float* q = job_.q + (sequence * job_.chosen.queries + first + i) * job_.heads * job_.width;
        for (int64_t h = 0; h < job_.heads && to > from; ++h)
          ops_.scatter(sums, grads_of(row, h) + from, q + h * job_.width);
      }
    });
  }

  float* grads_of(const LossRow& row, int64_t head) const {
    return row.grads.get() + head * (job_.chosen.count + kRoom);
  }

  // The loss of a query, and all of its gradients but those of keys.
  void score(int64_t sequence, int64_t query, LossRow& row, LossScratch& scratch) const {
    const ChosenKeys& chosen = job_.chosen;
    const int64_t at = sequence * chosen.queries + query;
    row.list.read(chosen.indices + at * chosen.count, chosen.count);
    row.size = row.list.size(), row.loss = 0;
    double total = 0;
    for (int64_t i = 0; i < row.size; ++i) {
      scratch.target[static_cast<size_t>(i)] = job_.target[at * chosen.count + row.list.places()[i]];
      total += scratch.target[static_cast<size_t>(i)];
    }
    if (!(total > 0) && !std::isnan(total)) row.size = 0;
    const ListedRows keys{job_.k + sequence * chosen.keys * job_.width, job_.width, row.list.keys(), row.size};
    if (row.size > 0) {
      add_scores(at, keys, row, scratch.scores.get());
      row.loss = divergence(row.size, 1 / total, scratch);
    }
    if (job_.grad_q != nullptr) add_gradients(at, keys, row, scratch.softmax.get());
  }

  void add_scores(int64_t at, const ListedRows& keys, const LossRow& row, float* scores) const {
    std::fill_n(scores, row.size, 0.0F);
    for (int64_t h = 0; h < job_.heads; ++h) {
      float* dots = grads_of(row, h);
      const float weight = job_.weights[at * job_.heads + h];
      ops_.dots(keys, job_.q + (at * job_.heads + h) * job_.width, 1, dots);
      for (int64_t i = 0; i < row.size; ++i) scores[i] += weight * (dots[i] < 0 ? 0 : dots[i]);
    }
  }

  // Makes the gradient of the scores out of the softmax.
  static double divergence(int64_t size, double inverse, LossScratch& scratch) {
    float *softmax = scratch.softmax.get(), *target = scratch.target.get();
    const float* scores = scratch.scores.get();
    const float greatest = *std::max_element(scores, scores + size);
    std::copy_n(scores, size, softmax);
    const float sum = screen_ops().exponentials(softmax, size, greatest);
    const double log_sum = std::log(static_cast<double>(sum)) + greatest;
    double loss = 0;
    for (int64_t i = 0; i < size; ++i) {
      const auto wanted = static_cast<float>(target[i] * inverse);
      if (wanted != 0) loss += wanted * (std::log(static_cast<double>(wanted)) - scores[i] + log_sum);
      softmax[i] = softmax[i] / sum - wanted;
    }
    return loss;
  }

  // The products of `row` become their gradients.
  void add_gradients(int64_t at, const ListedRows& keys, const LossRow& row, const float* grad_scores) const {
    for (int64_t h = 0; h < job_.heads; ++h) {
      float* dots = grads_of(row, h);
      const float weight = job_.weights[at * job_.heads + h];
      double grad_weight = 0;
      for (int64_t i = 0; i < row.size; ++i) {
        const float positive = dots[i] < 0 ? 0 : dots[i];
        grad_weight += grad_scores[i] * positive;
        dots[i] = dots[i] > 0 ? weight * grad_scores[i] : 0;
      }
      job_.grad_weights[at * job_.heads + h] = static_cast<float>(grad_weight);
      float* grad_q = job_.grad_q + (at * job_.heads + h) * job_.width;
      std::fill_n(grad_q, job_.width, 0.0F);
      if (row.size > 0) ops_.weighted_sum(keys, dots, grad_q);
    }
  }

  const IndexLoss& job_;
  Executor& executor_;
  const ScreenOps& ops_ = screen_ops();
  std::vector<std::unique_ptr<LossScratch>> scratch_;
  std::vector<LossRow> rows_;
  int64_t block_ = 0;
  IndexLossSum sum_;
};

}  // namespace

IndexLossSum index_loss(const IndexLoss& job, Executor& executor) {
  if (job.grad_k != nullptr) std::fill_n(job.grad_k, job.chosen.batch * job.chosen.keys * job.width, 0.0F);
  return LossPass(job, executor).run();
}

}  // namespace fovea::kernels
