#include "fovea/ops/reference_plan.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <list>
#include <mutex>
#include <string>
#include <tuple>

#include "fovea/ops/reference_blocks.h"

namespace fovea::ops {
namespace {

using kernels::AttentionProblem;
using kernels::RandomStream;
using kernels::Sequence;

constexpr size_t kCachedPlans = 64;
constexpr int64_t kCachedBytes = int64_t{256} << 20;

int64_t area(const Sequence& s) { return s.q_length * s.k_length; }

// Groups by falling area, so a group's first member is its largest; a member fills at least half of its padded share.
// The scores of a group of several members fit into the budget.
std::vector<ReferenceGroup> group_by_length(const AttentionProblem& problem, const BlockBudget& budget) {
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
      const int64_t heads = (last.count() + 1) * problem.num_heads;
      if (2 * area(s) >= queries * keys && budget.of(heads, queries, keys) <= budget.bytes) {
        last.q.length = queries, last.k.length = keys;
        last.members.push_back(s);
        continue;
      }
    }
    groups.push_back({{s}, {s.q_length, 0, {}, {}}, {s.k_length, 0, {}, {}}, {}, {}, {}});
  }
  for (ReferenceGroup& group : groups) {  // in the order of the call again, for unbroken rows of tokens
    std::sort(group.members.begin(), group.members.end(),
              [](const Sequence& a, const Sequence& b) { return a.q_begin < b.q_begin; });
  }
  return groups;
}

void fill_slots(ReferenceSide& side, const ReferenceGroup& group, int64_t Sequence::*begin, int64_t Sequence::*length) {
  side.first = group.members.front().*begin;
  bool in_place = true;
  std::vector<int64_t> tokens, slots;
  for (int64_t g = 0; g < group.count(); ++g) {
    const Sequence& s = group.members[static_cast<size_t>(g)];
    in_place = in_place && s.*begin == side.first + g * side.length && s.*length == side.length;
    for (int64_t i = 0; i < s.*length; ++i) {
      tokens.push_back(s.*begin + i);
      slots.push_back(g * side.length + i);
    }
  }
  if (in_place) return;
  side.tokens = at::tensor(tokens, at::kLong), side.slots = at::tensor(slots, at::kLong);
}

void set_positions(ReferenceGroup& group) {
  std::vector<int64_t> starts, q_begins;
  for (const Sequence& s : group.members) starts.push_back(s.k_length - s.q_length), q_begins.push_back(s.q_begin);
  if (std::ranges::all_of(starts, [&](int64_t x) { return x == starts.front(); })) starts.resize(1);
  const auto along_members = [&](const std::vector<int64_t>& values) {
    return at::tensor(values, at::kLong).view({-1, 1, 1, 1});
  };
  group.starts = along_members(starts), group.q_begins = along_members(q_begins);
}

// Calls f with each tensor of the plan that is defined; all are int64.
template <class Plan, class F>
void for_each_tensor(Plan& plan, const F& f) {
  const auto call = [&](auto& tensor) {
    if (tensor.defined()) f(tensor);
  };
  for (auto& group : plan.groups) {
    call(group.q.tokens), call(group.q.slots), call(group.k.tokens), call(group.k.slots);
    call(group.starts), call(group.q_begins);
    for (auto& block : group.blocks) {
      call(block.key_places);
      for (auto* edges : {&block.candidates, &block.keep}) {
        if (*edges) call((*edges)->begins), call((*edges)->ends);
      }
    }
  }
}

// One copy moves all tensors of the plan, because each copy makes the program wait for a GPU.
void move_to(ReferencePlan& plan, at::Device device) {
  std::vector<at::Tensor> flat;
  for_each_tensor(plan, [&](const at::Tensor& tensor) { flat.push_back(tensor.reshape(-1)); });
  if (flat.empty()) return;
  const at::Tensor there = at::cat(flat).to(device);
  int64_t first = 0;
  for_each_tensor(plan, [&](at::Tensor& tensor) {
    const int64_t count = tensor.numel();
    tensor = there.narrow(0, first, count).view(tensor.sizes());
    first += count;
  });
}

std::shared_ptr<const ReferencePlan> build(const AttentionProblem& problem, const RandomStream& random,
                                           const BlockBudget& budget, at::Device device) {
  auto plan = std::make_shared<ReferencePlan>();
  plan->groups = group_by_length(problem, budget);
  for (ReferenceGroup& group : plan->groups) {
    fill_slots(group.q, group, &Sequence::q_begin, &Sequence::q_length);
    fill_slots(group.k, group, &Sequence::k_begin, &Sequence::k_length);
    set_positions(group);
    divide_into_blocks({problem, random, budget}, group);
  }
  if (!device.is_cpu()) move_to(*plan, device);
  return plan;
}

int64_t bytes(const ReferencePlan& plan) {
  int64_t total = 0;
  for_each_tensor(plan, [&](const at::Tensor& tensor) { total += static_cast<int64_t>(tensor.nbytes()); });
  return total;
}

struct Key {
  std::string pairs, device;
  AttentionKind kind = AttentionKind::kSelf;
  int64_t heads = 0;
  kernels::KeySharing keys = {};
  BlockBudget budget = {};
  std::vector<uint64_t> random;  // empty when nothing draws
  std::vector<Sequence> sequences;
  bool operator==(const Key&) const = default;
};

Key key_of(const AttentionProblem& problem, const RandomStream& random, const BlockBudget& budget, at::Device device) {
  Key key{print(problem.spec.pairs()),
          device.str(),
          problem.kind,
          problem.num_heads,
          problem.keys,
          budget,
          {},
          problem.sequences};
  if (problem.spec.keep) key.pairs += ' ' + print(*problem.spec.keep);
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
  const BlockBudget budget = block_budget(problem);
  const Key key = key_of(problem, random, budget, device);
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
  std::shared_ptr<const ReferencePlan> plan = build(problem, random, budget, device);
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
