#include "fovea/ops/reference_plan.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "fovea/kernels/attention/dropout.h"

namespace fovea::ops {
namespace {

using kernels::AttentionProblem;
using kernels::RandomStream;
using kernels::Sequence;

constexpr int64_t kGroupPairs = int64_t{1} << 24;  // score elements of a group, H included, at most (but one sequence)
constexpr size_t kCachedPlans = 64;
constexpr int64_t kCachedBytes = int64_t{256} << 20;

int64_t area(const Sequence& s) { return s.q_length * s.k_length; }

// Groups by falling area, so a group's first member is its largest; a member fills at least half of its padded share.
std::vector<ReferenceGroup> group_by_length(const AttentionProblem& problem) {
  std::vector<Sequence> order;
  std::copy_if(problem.sequences.begin(), problem.sequences.end(), std::back_inserter(order),
               [](const Sequence& s) { return area(s) > 0; });
  const auto key = [](const Sequence& s) { return std::tuple(-area(s), -s.q_length, s.q_begin); };
  std::sort(order.begin(), order.end(), [&](const Sequence& a, const Sequence& b) { return key(a) < key(b); });
  std::vector<ReferenceGroup> groups;
  for (const Sequence& s : order) {
    if (!groups.empty()) {
      ReferenceGroup& last = groups.back();
      const int64_t queries = std::max(last.q.length, s.q_length), keys = std::max(last.k.length, s.k_length);
      const int64_t padded = queries * keys;
      if (2 * area(s) >= padded && (last.count() + 1) * padded * problem.num_heads <= kGroupPairs) {
        last.q.length = queries, last.k.length = keys;
        last.members.push_back(s);
        continue;
      }
    }
    groups.push_back({{s}, {s.q_length, {}, {}}, {s.k_length, {}, {}}, {}, {}});
  }
  for (ReferenceGroup& group : groups) {  // in the order of the call again, for unbroken rows of tokens
    std::sort(group.members.begin(), group.members.end(),
              [](const Sequence& a, const Sequence& b) { return a.q_begin < b.q_begin; });
  }
  return groups;
}

void fill_slots(ReferenceSide& side, const ReferenceGroup& group, int64_t Sequence::*begin, int64_t Sequence::*length,
                at::Device device) {
  bool in_place = true;
  std::vector<int64_t> tokens, slots;
  for (int64_t g = 0; g < group.count(); ++g) {
    const Sequence& s = group.members[static_cast<size_t>(g)];
    in_place = in_place && s.*begin == g * side.length && s.*length == side.length;
    for (int64_t i = 0; i < s.*length; ++i) {
      tokens.push_back(s.*begin + i);
      slots.push_back(g * side.length + i);
    }
  }
  if (in_place) return;
  const auto on = at::TensorOptions(device).dtype(at::kLong);
  side.tokens = at::tensor(tokens, on), side.slots = at::tensor(slots, on);
}

// One head's rows of a mask [N_q, row_keys], and what stands there for a pair.
struct MaskRows {
  bool* data;
  int64_t row_keys;
  bool value;
};

void mark(const Pairs& pairs, const AttentionProblem& problem, const Sequence& s, uint64_t stream, MaskRows to) {
  for (int64_t i = 0; i < s.q_length; ++i) {
    for (const Span& span : spans(pairs, kernels::row_of(problem, s, i, stream))) {
      std::fill_n(to.data + i * to.row_keys + span.begin, span.end - span.begin, to.value);
    }
  }
}

at::Tensor pair_mask(const Pairs& pairs, const AttentionProblem& problem, const RandomStream& random,
                     const ReferenceGroup& group, bool marked) {
  const bool by_head = uses_random(pairs);
  bool equal = true;
  for (const Sequence& s : group.members) equal = equal && s.q_length == group.q.length && s.k_length == group.k.length;
  const int64_t heads = by_head ? problem.num_heads : 1, count = equal ? 1 : group.count();
  const int64_t size = group.q.length * group.k.length;
  at::Tensor mask = at::empty({count, heads, group.q.length, group.k.length}, at::kBool);
  bool* data = mask.data_ptr<bool>();
  std::memset(data, marked ? 0 : 1, static_cast<size_t>(mask.numel()));
  std::map<std::pair<int64_t, int64_t>, const bool*> done;  // by lengths: most sentences of a batch share theirs
  for (int64_t g = 0; g < count; ++g) {
    const Sequence& s = group.members[static_cast<size_t>(g)];
    bool* begin = data + g * heads * size;
    const bool*& same = done[{s.q_length, s.k_length}];
    if (same) {
      std::memcpy(begin, same, static_cast<size_t>(heads * size));
      continue;
    }
    same = begin;
    for (int64_t h = 0; h < heads; ++h) {
      mark(pairs, problem, s, random.pattern(h), {begin + h * size, group.k.length, marked});
    }
  }
  return mask;
}

bool all_pairs(const AttentionProblem& problem, const ReferenceGroup& group) {
  if (!problem.spec.pairs().is_full() || problem.kind == AttentionKind::kCausal) return false;
  return std::all_of(group.members.begin(), group.members.end(),
                     [&](const Sequence& s) { return s.k_length == group.k.length; });
}

std::shared_ptr<const ReferencePlan> build(const AttentionProblem& problem, const RandomStream& random,
                                           at::Device device) {
  auto plan = std::make_shared<ReferencePlan>();
  plan->groups = group_by_length(problem);
  for (ReferenceGroup& group : plan->groups) {
    fill_slots(group.q, group, &Sequence::q_begin, &Sequence::q_length, device);
    fill_slots(group.k, group, &Sequence::k_begin, &Sequence::k_length, device);
    if (!all_pairs(problem, group)) {
      group.outside = pair_mask(problem.spec.pairs(), problem, random, group, false).to(device);
    }
    if (problem.spec.select && problem.spec.select->keep) {
      group.keep = pair_mask(*problem.spec.select->keep, problem, random, group, true).to(device);
    }
  }
  return plan;
}

int64_t bytes(const ReferencePlan& plan) {
  int64_t total = 0;
  for (const ReferenceGroup& g : plan.groups) {
    for (const at::Tensor* t : {&g.q.tokens, &g.q.slots, &g.k.tokens, &g.k.slots, &g.outside, &g.keep}) {
      if (t->defined()) total += static_cast<int64_t>(t->nbytes());
    }
  }
  return total;
}

struct Key {
  std::string pairs, device;
  AttentionKind kind = AttentionKind::kSelf;
  int64_t heads = 0;
  std::vector<uint64_t> random;  // empty when nothing draws
  std::vector<Sequence> sequences;
  bool operator==(const Key&) const = default;
};

Key key_of(const AttentionProblem& problem, const RandomStream& random, at::Device device) {
  Key key{print(problem.spec.pairs()), device.str(), problem.kind, problem.num_heads, {}, problem.sequences};
  if (problem.spec.select && problem.spec.select->keep) key.pairs += ' ' + print(*problem.spec.select->keep);
  if (uses_random(problem.spec))
    key.random = {random.seed, static_cast<uint64_t>(random.layer), static_cast<uint64_t>(random.first_head)};
  return key;
}

// The last plans, most recent first; a training step asks for the same few in every layer.
struct PlanCache {
  std::mutex mutex;
  struct Entry {
    Key key;
    std::shared_ptr<const ReferencePlan> plan;
    int64_t bytes;
  };
  std::list<Entry> entries;
  int64_t held = 0;
};

}  // namespace

std::shared_ptr<const ReferencePlan> reference_plan(const AttentionProblem& problem, const RandomStream& random,
                                                    at::Device device) {
  static PlanCache cache;
  const Key key = key_of(problem, random, device);
  {
    const std::scoped_lock lock(cache.mutex);
    for (auto it = cache.entries.begin(); it != cache.entries.end(); ++it) {
      if (it->key == key) {
        cache.entries.splice(cache.entries.begin(), cache.entries, it);
        return cache.entries.front().plan;
      }
    }
  }
  const c10::InferenceMode no_inference(false);  // a later call may need the plan's tensors in a graph
  std::shared_ptr<const ReferencePlan> plan = build(problem, random, device);
  const std::scoped_lock lock(cache.mutex);
  cache.entries.push_front({key, plan, bytes(*plan)});
  cache.held += cache.entries.front().bytes;
  while (cache.entries.size() > 1 && (cache.entries.size() > kCachedPlans || cache.held > kCachedBytes)) {
    cache.held -= cache.entries.back().bytes;
    cache.entries.pop_back();
  }
  return plan;
}

}  // namespace fovea::ops
