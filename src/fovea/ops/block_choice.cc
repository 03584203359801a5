#include "fovea/ops/block_choice.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <algorithm>

#include "fovea/ops/executor_for.h"

namespace fovea::ops {
namespace {

// Rows that the kernel takes.
at::Tensor readable(const at::Tensor& x) {
  const at::Tensor rows = token_rows(x);
  if (may_read(rows)) return rows;
  const bool bf16 = rows.scalar_type() == at::kBFloat16;
  return rows.to(at::kCPU, bf16 ? at::kBFloat16 : at::kFloat).contiguous();
}

}  // namespace

bool may_read(const at::Tensor& rows) {
  const bool has_type = rows.scalar_type() == at::kFloat || rows.scalar_type() == at::kBFloat16;
  return has_type && rows.device().is_cpu() && rows.dim() == 3 && (rows.size(2) <= 1 || rows.stride(2) == 1);
}

kernels::Rows<const void> rows_to_read(const at::Tensor& rows) {
  return {rows.const_data_ptr(), rows.stride(0), rows.stride(1)};
}

kernels::DType type_to_read(const at::Tensor& rows) {
  return rows.scalar_type() == at::kBFloat16 ? kernels::DType::kBFloat16 : kernels::DType::kFloat32;
}

kernels::BlockScore score_of(const BlockChoice& choice) {
  return choice.score == BlockChoice::Score::kBounds ? kernels::BlockScore::kBounds : kernels::BlockScore::kMean;
}

at::Tensor listed_blocks(const kernels::BlockTopk& job, int64_t tokens) {
  int64_t scores = 0;
  for (const kernels::Sequence& s : job.sequences) scores += s.q_length * (s.k_length / job.block + 1);
  const kernels::BlockLists lists =
      kernels::block_topk(job, executor_for(scores * job.heads * std::max<int64_t>(job.head_dim, 1)));
  at::Tensor out = at::full({tokens, job.heads, lists.count}, -1, at::kInt);
  std::copy(lists.blocks.begin(), lists.blocks.end(), out.mutable_data_ptr<int32_t>());
  return out;
}

at::Tensor chosen_blocks(const QueryKey& x, const LayerCall& call, const BlockChoice& choice) {
  const at::NoGradGuard constant;
  const at::AutoDispatchBelowADInplaceOrView below;
  const at::Tensor q = readable(x.q);
  at::Tensor k = token_rows(x.k);
  if (call.k_tokens) k = k.index_select(0, call.k_tokens->to(k.device()));
  k = readable(k);
  const std::vector<kernels::Sequence> sequences = sequences_of(x, call);
  kernels::BlockTopk job;
  job.q = rows_to_read(q), job.k = rows_to_read(k), job.dtype = type_to_read(q);
  job.heads = q.size(1), job.head_dim = q.size(2), job.keys = call.keys();
  job.block = choice.block, job.best = choice.best, job.score = score_of(choice);
  job.causal = call.kind == AttentionKind::kCausal;
  job.sequences = sequences;
  const at::Tensor lists = listed_blocks(job, q.size(0)).to(x.q.device());
  return from_token_rows(lists, x.q);
}

}  // namespace fovea::ops
