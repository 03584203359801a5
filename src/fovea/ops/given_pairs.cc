#include "fovea/ops/given_pairs.h"

#include <ATen/ops/empty.h>

#include "fovea/kernels/call/lists.h"
#include "fovea/ops/attention_layout.h"
#include "fovea/ops/executor.h"

namespace fovea::ops {

PairLists pair_lists(const NamedLists& named) {
  const auto& [indices, block_indices, block_size] = named;
  kernels::one_of({view_of(indices), view_of(block_indices), block_size});
  if (block_indices) return {.lists = *block_indices, .block = block_size, .by_head = true};
  return indices ? PairLists{.lists = *indices, .block = 1} : PairLists{};
}

kernels::ListViews views_of(const PairLists& pairs) {
  return {view_of_defined(pairs.lists), pairs.block, pairs.by_head};
}

at::Tensor given_lists(const at::Tensor& given, const kernels::AttentionProblem& problem, bool packed) {
  at::Tensor x = given.to(at::kCPU);
  if (x.size(-1) > 1 && x.stride(-1) != 1) x = x.contiguous();
  const bool by_head = problem.given.by_head();
  const int64_t tokens = packed ? x.size(0) : x.size(0) * x.size(-2), heads = by_head ? x.size(1) : 1;
  const int64_t count = problem.given.count;
  const at::Tensor room = at::empty({tokens * heads * count + kernels::kReadBehindLists}, at::kInt);
  kernels::sort_lists(view_of(x), packed, problem, room.mutable_data_ptr<int32_t>(), torch_executor());
  return room.narrow(0, 0, tokens * heads * count).view({tokens, heads, count});
}

kernels::GivenLists lists_of(const at::Tensor& lists) {
  if (!lists.defined()) return {};
  return {lists.const_data_ptr<int32_t>(), lists.size(1) * lists.size(2), lists.size(1) > 1 ? lists.size(2) : 0};
}

}  // namespace fovea::ops
