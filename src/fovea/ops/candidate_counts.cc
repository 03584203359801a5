#include "fovea/ops/candidate_counts.h"

#include <ATen/ops/ones.h>

#include "fovea/kernels/call/counts.h"
#include "fovea/ops/attention_layout.h"
#include "fovea/ops/executor_for.h"

namespace fovea::ops {

at::Tensor candidate_counts(const LayerSpec& heads, const at::Tensor& q, const at::Tensor& k,
                            const AttentionOptions& options) {
  at::Tensor counts = at::ones({q.size(0), q.size(1)}, at::kFloat);
  const std::vector<kernels::Sequence> sequences = sequences_of({q, k}, options);
  const kernels::RandomStream random{.seed = static_cast<uint64_t>(options.seed), .layer = options.layer};
  kernels::count_candidates({.heads = heads, .kind = options.kind, .sequences = sequences, .random = random},
                            counts.mutable_data_ptr<float>(), executor_for(counts.numel()));
  return counts;
}

}  // namespace fovea::ops
