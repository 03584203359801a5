#include "fovea/kernels/call/lists.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::kernels {
namespace {

constexpr int64_t kListTaskRows = 64;

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
      cat("attention: ", name_of_lists(rule.lists.by_head()), " names ", rule.block == 1 ? "key " : "block ", entry,
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
ListRows<T> lists_at(const TensorView& x, bool by_head, bool packed) {
  ListRows<T> out{.data = static_cast<const T*>(x.data), .count = x.sizes.back()};
  out.head_stride = by_head ? x.strides[1] : 0;
  if (packed) {
    out.token_stride = x.strides[0];
    return out;
  }
  const size_t queries = x.sizes.size() - 2;
  out.token_stride = x.strides[queries], out.batch_stride = x.strides[0], out.queries = x.sizes[queries];
  return out;
}

EntryRule rule_of(const AttentionProblem& problem, const Sequence& s, int64_t query) {
  return {problem.given, s.k_length, row_of(problem, s, query).limit()};
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
void fill_lists(const ListRows<T>& given, const AttentionProblem& problem, int32_t* to, Executor& executor) {
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
  const int64_t heads = problem.list_heads();
  std::vector<ListSorter> sorters(static_cast<size_t>(executor.num_threads()));
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
  executor.run(std::ssize(tasks), [&](int64_t t, int worker) {
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

const char* name_of_lists(bool by_head) { return by_head ? "block_indices" : "indices"; }

void sort_lists(const TensorView& given, bool packed, const AttentionProblem& problem, int32_t* out,
                Executor& executor) {
  const bool by_head = problem.given.by_head();
  int64_t numbers = 1;
  for (const int64_t size : given.sizes) numbers *= size;
  std::fill_n(out + numbers, kReadBehindLists, -1);
  if (given.element == TensorView::Element::kInt32) {
    fill_lists(lists_at<int32_t>(given, by_head, packed), problem, out, executor);
  } else {
    fill_lists(lists_at<int64_t>(given, by_head, packed), problem, out, executor);
  }
}

}  // namespace fovea::kernels
