#include "fovea/ops/given_pairs.h"

#include <ATen/ops/empty.h>

#include <limits>
#include <string>

#include "fovea/base/strings.h"
#include "fovea/kernels/call/lists.h"
#include "fovea/ops/attention_checks.h"
#include "fovea/ops/attention_layout.h"
#include "fovea/ops/executor.h"

namespace fovea::ops {
namespace {

using kernels::AttentionProblem;
using kernels::GivenPairs;
using kernels::Sequence;

// [.., count] of q's queries, with q's heads left out or those of k in their place.
bool lists_fit(const at::Tensor& lists, bool by_head, const CoreTensors& x) {
  const at::Tensor& q = x.q;
  if (lists.dim() != q.dim() - (by_head ? 0 : 1) || lists.size(0) != q.size(0)) return false;
  if (by_head && lists.size(1) != x.k.size(1)) return false;
  return q.dim() == 3 || lists.size(-2) == q.size(2);
}

void check_lists(const PairLists& pairs, const CoreTensors& x) {
  const auto& [lists, block, by_head] = pairs;
  if (block < 1 || block > std::numeric_limits<int32_t>::max())
    throw Error(cat("attention: block_size is ", block, "; expected the keys of a block, 1 or more"));
  const bool is_index = lists.scalar_type() == at::kInt || lists.scalar_type() == at::kLong;
  if (lists_fit(lists, by_head, x) && is_index && lists.device() == x.q.device() && lists.layout() == at::kStrided)
    return;
  const bool packed = x.q.dim() == 3;
  const std::string expected =
      by_head ? cat(packed ? "[T_q, H_kv, k]" : "[B, H_kv, N_q, k]", ", a list for each head of k,")
              : cat(packed ? "[T_q, k]" : "[B, N_q, k]", ", shared by all heads,");
  throw Error(cat("attention: ", kernels::name_of_lists(by_head), " is ", lists.scalar_type(), ' ', shape(lists),
                  " on ", lists.device().str(), "; expected int32 or int64 ", expected, " on ", x.q.device().str(),
                  " for q of shape ", shape(x.q), " and k of shape ", shape(x.k)));
}

}  // namespace

PairLists pair_lists(const NamedLists& named) {
  const auto& [indices, block_indices, block_size] = named;
  if (indices && block_indices) {
    throw Error("attention: got indices and block_indices; expected one of them, as each names all pairs of a query");
  }
  if (!block_indices && block_size != kUsualBlock) {
    throw Error(cat("attention: got block_size ", block_size, " without block_indices; leave it out"));
  }
  if (block_indices) return {.lists = *block_indices, .block = block_size, .by_key_head = true};
  return indices ? PairLists{.lists = *indices, .block = 1} : PairLists{};
}

GivenPairs given_pairs(const CoreTensors& x, const PairLists& pairs) {
  if (!pairs.lists.defined()) return {};
  check_lists(pairs, x);
  const int64_t count = pairs.lists.size(-1);
  return {.block = pairs.block, .count = count, .by_key_head = pairs.by_key_head};
}

at::Tensor given_lists(const at::Tensor& given, const AttentionProblem& problem, bool packed) {
  at::Tensor x = given.to(at::kCPU);
  if (x.size(-1) > 1 && x.stride(-1) != 1) x = x.contiguous();
  const bool by_head = problem.given.by_key_head;
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
