#include <algorithm>
#include <limits>

#include "fovea/base/strings.h"
#include "fovea/kernels/attention/dropout.h"
#include "fovea/kernels/call/layout.h"
#include "fovea/kernels/routing/members.h"
#include "fovea/stable/call.h"
#include "fovea/stable/copies.h"
#include "fovea/stable/executor.h"
#include "fovea/stable/memory.h"

// The members of the random clusters of routed attention (spec/attention_spec.h) as an operator: Python gathers their
// rows and attends within each cluster.
namespace fovea::stable {
namespace {

using kernels::MemberLists;
using kernels::Sequence;
using kernels::TokenRange;

struct Side {
  std::vector<TokenRange> ranges;
  int64_t tokens = 0, heads = 0;
  int64_t most = 0;  // that a sequence can have
  bool own_keys = false;
};

Side side_of(const Tensor& x, const std::vector<Sequence>& sequences, bool own_keys) {
  const bool packed = x.dim() == 3;
  Side side{{}, packed ? x.size(0) : x.size(0) * x.size(2), x.size(1), x.size(packed ? 0 : 2), own_keys};
  for (const Sequence& s : sequences)
    side.ranges.push_back(own_keys ? TokenRange{s.k_begin, s.k_length} : TokenRange{s.q_begin, s.q_length});
  if (side.tokens * side.heads > std::numeric_limits<int32_t>::max())
    throw Error(cat("attention: ", side.tokens, " tokens of ", side.heads, " heads are too many for routed"));
  return side;
}

// Fills the rows up to `count` by T * H, in one of two more lists: queries that have no key, and keys of no query.
void fill_up(MemberLists& lists, const Side& side, int64_t count) {
  lists.rows.resize(static_cast<size_t>(count), static_cast<int32_t>(side.tokens * side.heads));
  lists.offsets.push_back(side.own_keys ? lists.offsets.back() : count);
  lists.offsets.push_back(count);
}

MemberLists members_of(const Side& side, const std::vector<int64_t>& route, const kernels::RandomStream& random) {
  std::vector<uint64_t> streams;
  for (int64_t head = 0; head < side.heads; ++head) {
    const uint64_t stream = random.pattern(head);
    streams.push_back(side.own_keys ? kernels::own_key_stream(stream) : stream);
  }
  const int64_t hashes = side.tokens * side.heads * route[0];
  MemberLists lists = kernels::random_members({streams, route[0]}, side.ranges, route[1], executor_for(hashes));
  if (route[3] != 0) fill_up(lists, side, (std::ssize(lists.offsets) - 1) * std::min(route[1], side.most));
  return lists;
}

Tensor tensor_of(const auto& numbers) {
  const Tensor out = empty({std::ssize(numbers)}, aoti_torch_dtype_int64());
  std::ranges::copy(numbers, written_numbers<int64_t>(out));
  return out;
}

// Rows token * H + head of the members of queries and of keys, all lists one after the other, and where each list
// begins, [H * sequences * clusters + 1]: a list for each head, sequence and cluster, in this order. q and k tell their
// sizes alone and have as many heads. `route` is clusters, window, whether keys are queries, and whether rows are
// filled up to a number that no lengths change, as traced graphs need it.
void kernel_members(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const Tensor q = in.tensor(), k = in.tensor();
  const OptionalTensors layout = in.tensors();
  const std::vector<int64_t> route = in.integers(), stream = in.integers();
  check_count(route, 4, "route");
  const bool shared = route[2] != 0;
  const std::vector<Sequence> sequences =
      kernels::read_sequences(kernels::sizes_of(view_of(q), view_of(k)), vectors_of(layout));
  if (shared) kernels::check_same_tokens(sequences);
  const kernels::RandomStream random = stream_of(stream);
  const MemberLists queries = members_of(side_of(q, sequences, false), route, random);
  MemberLists keys = shared ? queries : members_of(side_of(k, sequences, true), route, random);
  if (shared && route[3] != 0) keys.offsets[keys.offsets.size() - 2] = keys.offsets[keys.offsets.size() - 3];
  stack[0] = result(tensor_of(queries.rows)), stack[1] = result(tensor_of(queries.offsets));
  stack[2] = result(tensor_of(keys.rows)), stack[3] = result(tensor_of(keys.offsets));
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(fovea, m) {
  if (!is_first_copy()) return;
  m.def(
      "kernel_members(Tensor q, Tensor k, Tensor?[] layout, int[] route, int[] stream) -> (Tensor q_rows, Tensor "
      "q_offsets, Tensor k_rows, Tensor k_offsets)");
}
STABLE_TORCH_LIBRARY_IMPL(fovea, CompositeExplicitAutograd, m) {
  if (!is_first_copy()) return;
  m.impl("kernel_members", &kernel_members);
}

}  // namespace fovea::stable
