#include "fovea/kernels/indexer/index_target.h"

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

}  // namespace fovea::kernels
