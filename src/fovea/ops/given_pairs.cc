#include "fovea/ops/given_pairs.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/ops/attention_checks.h"
#include "fovea/ops/executor.h"

namespace fovea::ops {
namespace {

using kernels::AttentionProblem;
using kernels::GivenPairs;
using kernels::Sequence;

constexpr int64_t kReadBehindLists = 16;  // kernels::GivenLists
constexpr int64_t kListTaskRows = 64;

const char* name_of_lists(bool by_head) { return by_head ? "block_indices" : "indices"; }

// [.., count] of q's queries, with q's heads left out or those of k in their place.
bool lists_fit(const at::Tensor& lists, bool by_head, const CoreTensors& x) {
  const at::Tensor& q = x.q;
  if (lists.dim() != q.dim() - (by_head ? 0 : 1) || lists.sym_size(0) != q.sym_size(0)) return false;
  if (by_head && lists.sym_size(1) != x.k.sym_size(1)) return false;
  return q.dim() == 3 || lists.sym_size(-2) == q.sym_size(2);
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
  throw Error(cat("attention: ", name_of_lists(by_head), " is ", lists.scalar_type(), ' ', shape(lists), " on ",
                  lists.device().str(), "; expected int32 or int64 ", expected, " on ", x.q.device().str(),
                  " for q of shape ", shape(x.q), " and k of shape ", shape(x.k)));
}

struct QueryPlace {
  int64_t sequence = 0, query = 0;
};

// The rule for an entry: which numbers it may have.
struct EntryRule {
  GivenPairs lists;
  int64_t keys = 0, limit = 0;  // keys of the sequence, and Row::limit()
  int64_t block = lists.block;
  int64_t units() const { return (keys + block - 1) / block; }
  int64_t allowed() const { return (std::max<int64_t>(limit, 0) + block - 1) / block; }
};

[[noreturn]] void refuse_entry(const EntryRule& rule, const QueryPlace& at, int64_t entry, bool twice) {
  const std::string what =
      cat("attention: ", name_of_lists(rule.lists.by_key_head), " names ", rule.block == 1 ? "key " : "block ", entry,
          " for query ", at.query, " of sequence ", at.sequence);
  if (twice) throw Error(cat(what, " twice; expected each once, and -1 in places left over"));
  if (entry < 0 || entry >= rule.units()) {
    throw Error(
        cat(what, "; expected 0 to ", rule.units() - 1, " of the sequence's ", rule.keys, " keys, or -1 for none"));
  }
  throw Error(cat(what, ", which lies behind the query under the causal limit; expected ",
                  rule.allowed() > 0 ? cat("0 to ", rule.allowed() - 1, ", or -1") : std::string("-1"), " for none"));
}

// Sorts a list of distinct entries and fills it up with -1. False where an entry breaks the rule.
class ListSorter {
 public:
  template <class T>
  bool sort(std::span<const T> given, const EntryRule& rule, std::span<int32_t> out) {
    const int64_t allowed = rule.allowed();
    size_t count = 0;
    for (const T entry : given) {
      if (entry == -1) continue;
      if (entry < 0 || entry >= allowed) return false;
      out[count++] = static_cast<int32_t>(entry);
    }
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(count), out.end(), -1);
    return order(out.first(count), allowed);
  }

 private:
  // Sorts the entries, by a bit for each unit if that takes few words. Returns false if an entry comes twice.
  bool order(std::span<int32_t> entries, int64_t units) {
    const auto words = static_cast<size_t>((units + 63) / 64);
    if (words > 16 * entries.size()) {
      std::sort(entries.begin(), entries.end());
      return std::adjacent_find(entries.begin(), entries.end()) == entries.end();
    }
    if (bits_.size() < words) bits_.resize(words);
    for (const int32_t entry : entries) bits_[static_cast<size_t>(entry) / 64] |= uint64_t{1} << (entry % 64);
    size_t count = 0;
    for (size_t word = 0; word < words; ++word) {
      for (uint64_t rest = bits_[word]; rest != 0; rest &= rest - 1) {
        entries[count++] = static_cast<int32_t>(word * 64) + __builtin_ctzll(rest);
      }
      bits_[word] = 0;
    }
    return count == entries.size();
  }

  std::vector<uint64_t> bits_;  // zero between calls
};

// One row of lists: where its entries lie in the tensor that was given, side by side.
template <class T>
struct ListRows {
  const T* data = nullptr;
  int64_t token_stride = 0, head_stride = 0, batch_stride = 0, queries = 0;  // queries: N_q; 0: packed
  int64_t count = 0;
  std::span<const T> of(int64_t token, int64_t head) const {
    const int64_t batch = queries == 0 ? 0 : token / queries, query = token - batch * queries;
    const int64_t at = batch * batch_stride + query * token_stride + head * head_stride;
    return {data + at, static_cast<size_t>(count)};
  }
};

template <class T>
ListRows<T> lists_at(const at::Tensor& x, bool by_head, bool packed) {
  ListRows<T> out{.data = x.const_data_ptr<T>(), .count = x.size(-1)};
  out.head_stride = by_head ? x.stride(1) : 0;
  if (packed) {
    out.token_stride = x.stride(0);
    return out;
  }
  out.token_stride = x.stride(-2), out.batch_stride = x.stride(0), out.queries = x.size(-2);
  return out;
}

EntryRule rule_of(const AttentionProblem& problem, const Sequence& s, int64_t query) {
  return {problem.given, s.k_length, kernels::row_of(problem, s, query).limit()};
}

// Names the first fault of a list that has one.
template <class T>
[[noreturn]] void find_fault(std::span<const T> given, const EntryRule& rule, const QueryPlace& at) {
  std::vector<T> seen;
  for (const T entry : given) {
    if (entry == -1) continue;
    const bool twice = std::find(seen.begin(), seen.end(), entry) != seen.end();
    if (twice || entry < 0 || entry >= rule.allowed()) refuse_entry(rule, at, entry, twice);
    seen.push_back(entry);
  }
  throw Error("attention: lists of pairs changed while they were read");
}

template <class T>
void fill_lists(const ListRows<T>& given, const AttentionProblem& problem, const at::Tensor& out) {
  struct Task {
    int64_t sequence, first, count;
  };
  std::vector<Task> tasks;
  for (int64_t s = 0; s < std::ssize(problem.sequences); ++s) {
    const int64_t queries = problem.sequences[static_cast<size_t>(s)].q_length;
    for (int64_t first = 0; first < queries; first += kListTaskRows) {
      tasks.push_back({s, first, std::min(kListTaskRows, queries - first)});
    }
  }
  const int64_t heads = out.size(1);
  auto* to = out.mutable_data_ptr<int32_t>();
  std::vector<ListSorter> sorters(static_cast<size_t>(torch_executor().num_threads()));
  std::atomic<int64_t> faulty = std::numeric_limits<int64_t>::max();  // the first task with a fault
  const auto each_row = [&](const Task& task, const auto& work) {
    const Sequence& s = problem.sequences[static_cast<size_t>(task.sequence)];
    for (int64_t i = task.first; i < task.first + task.count; ++i) {
      const EntryRule rule = rule_of(problem, s, i);
      for (int64_t h = 0; h < heads; ++h) {
        const std::span<int32_t> row(to + ((s.q_begin + i) * heads + h) * given.count,
                                     static_cast<size_t>(given.count));
        if (!work(given.of(s.q_begin + i, h), rule, row, QueryPlace{task.sequence, i})) return false;
      }
    }
    return true;
  };
  torch_executor().run(std::ssize(tasks), [&](int64_t t, int worker) {
    const bool good = each_row(tasks[static_cast<size_t>(t)], [&](auto list, const EntryRule& rule, auto row, auto) {
      return sorters[static_cast<size_t>(worker)].sort(list, rule, row);
    });
    int64_t first = faulty.load();
    while (!good && t < first && !faulty.compare_exchange_weak(first, t)) {
    }
  });
  if (faulty == std::numeric_limits<int64_t>::max()) return;
  ListSorter again;
  each_row(tasks[static_cast<size_t>(faulty.load())],
           [&](auto list, const EntryRule& rule, auto row, const QueryPlace& at) {
             if (!again.sort(list, rule, row)) find_fault(list, rule, at);
             return true;
           });
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
  const int64_t count = pairs.lists.sym_size(-1).guard_int(__FILE__, __LINE__);
  return {.block = pairs.block, .count = count, .by_key_head = pairs.by_key_head};
}

at::Tensor given_lists(const at::Tensor& given, const AttentionProblem& problem, bool packed) {
  at::Tensor x = given.to(at::kCPU);
  if (x.size(-1) > 1 && x.stride(-1) != 1) x = x.contiguous();
  const bool by_head = problem.given.by_key_head;
  const int64_t tokens = packed ? x.size(0) : x.size(0) * x.size(-2), heads = by_head ? x.size(1) : 1;
  const int64_t count = problem.given.count;
  const at::Tensor room = at::empty({tokens * heads * count + kReadBehindLists}, at::kInt);
  std::fill_n(room.mutable_data_ptr<int32_t>() + tokens * heads * count, kReadBehindLists, -1);
  const at::Tensor out = room.narrow(0, 0, tokens * heads * count).view({tokens, heads, count});
  if (x.scalar_type() == at::kInt) {
    fill_lists(lists_at<int32_t>(x, by_head, packed), problem, out);
  } else {
    fill_lists(lists_at<int64_t>(x, by_head, packed), problem, out);
  }
  return out;
}

kernels::GivenLists lists_of(const at::Tensor& lists) {
  if (!lists.defined()) return {};
  return {lists.const_data_ptr<int32_t>(), lists.size(1) * lists.size(2), lists.size(1) > 1 ? lists.size(2) : 0};
}

at::Tensor unlisted_pairs(const at::Tensor& lists, const AttentionProblem& problem, const PaddedSequences& sequences) {
  const int64_t heads = problem.given.by_key_head ? problem.num_heads : 1, block = problem.given.block;
  const int64_t groups = std::ssize(sequences.members);
  at::Tensor mask = at::empty({groups, heads, sequences.queries, sequences.keys}, at::kBool).fill_(true);
  bool* data = mask.mutable_data_ptr<bool>();
  const kernels::GivenLists from = lists_of(lists);
  for (int64_t g = 0; g < groups; ++g) {
    const Sequence& s = sequences.members[static_cast<size_t>(g)];
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t key_head = problem.given.by_key_head ? problem.key_head(h) : 0;
      for (int64_t i = 0; i < s.q_length; ++i) {
        const int32_t* list = from.data + (s.q_begin + i) * from.token_stride + key_head * from.head_stride;
        bool* row = data + ((g * heads + h) * sequences.queries + i) * sequences.keys;
        for (int64_t e = 0; e < problem.given.count && list[e] >= 0; ++e) {
          std::fill(row + list[e] * block, row + std::min((list[e] + 1) * block, s.k_length), false);
        }
      }
    }
  }
  return mask;
}

}  // namespace fovea::ops
