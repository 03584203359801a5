#include "fovea/kernels/attention/cpu/rows.h"

#include <algorithm>
#include <variant>

#include "fovea/kernels/attention/cpu/kernels.h"
#include "fovea/kernels/attention/cpu/key_screen.h"
#include "fovea/kernels/attention/cpu/long_steps.h"

namespace fovea::kernels {
namespace {

// Queries of a forward task, about; packing a sequence's keys again for each is small beside the products.
constexpr int64_t kForwardQueries = 256;
constexpr int64_t kFewQueries = 8;     // of a sequence that is_few()
constexpr int64_t kManyPairs = 48;     // of a query, for pays_bf16()
constexpr int64_t kFewSequences = 16;  // of a task
constexpr int64_t kLeastScreenedKeys = 256;
constexpr int64_t kKeysOfSelected = 8;  // of a row, for each that it selects: with fewer, most keys are candidates

std::vector<std::string> refuses(const AttentionProblem& problem) {
  std::vector<std::string> reasons = refusals_of(problem, kMaxRowsHeadDim);
  if (problem.keys_listed && problem.needs_backward) reasons.emplace_back("no gradients for keys that a list names");
  return reasons;
}

SavedPerRow saved(const AttentionProblem& problem) {
  if (!problem.needs_backward) return {};
  return {.floats = (is_pointwise(problem.spec.transform) ? 0 : 2) + (problem.spec.selects() ? 1 : 0)};
}

int64_t pairs_of(const Candidates& table, const RowGroup& group) {
  int64_t pairs = 0;
  for (int32_t r = group.row; r < group.row + group.queries; ++r) {
    pairs += table.hull[static_cast<size_t>(r)].end - table.hull[static_cast<size_t>(r)].begin;
  }
  return pairs;
}

// Group indices at which `parts` shares of about equally many pairs begin, and the end.
std::vector<int64_t> split_groups(const Candidates& table, int64_t parts) {
  std::vector<int64_t> begins = {0};
  int64_t seen = 0;
  const auto groups = static_cast<int64_t>(table.groups.size());
  for (int64_t g = 0; g < groups; ++g) {
    const auto done = static_cast<int64_t>(begins.size());
    if (g > begins.back() && done < parts && seen >= table.pairs * done / parts) begins.push_back(g);
    seen += pairs_of(table, table.groups[static_cast<size_t>(g)]);
  }
  begins.push_back(groups);
  return begins;
}

// Whether a sequence has so few queries that it goes without candidates and packing; the mechanism must be plain
// softmax over all keys. The kernel of a sequence depends on itself alone, never on the others of the call.
bool is_few(const AttentionProblem& problem, const Sequence& sequence) {
  return sequence.q_length <= kFewQueries && sequence.k_length <= kFewKeys && is_plain_forward(problem);
}

// Whether the screen of its keys serves a sequence, of one query that sees all keys.
bool is_screened(const AttentionProblem& problem, const AttentionForward& in, const Sequence& sequence) {
  if (!in.screen.any() || sequence.q_length != 1 || problem.needs_backward || problem.dropout != 0) return false;
  if (!reads_key_screen(problem.spec) || problem.given.any() || problem.offsets.any()) return false;
  return sequence.k_length >= std::max(kLeastScreenedKeys, kKeysOfSelected * problem.spec.top_k()->k);
}

template <class Belongs>
std::vector<int64_t> sequences_that(const AttentionProblem& problem, const Belongs& belongs) {
  std::vector<int64_t> all;
  for (size_t s = 0; s < problem.sequences.size(); ++s) {
    if (belongs(problem.sequences[s])) all.push_back(static_cast<int64_t>(s));
  }
  return all;
}

void forward_few(RowsCall call, Executor& executor) {
  const auto count = static_cast<int64_t>(call.few.size());
  with_isa([&](auto tag) {
    using Level = RowsKernel<decltype(tag)::kIsa>;
    const WorkerScratch scratch(executor.num_threads(), Level::few_scratch(call));
    executor.run((count + kFewSequences - 1) / kFewSequences, [&](int64_t piece, int worker) {
      const int64_t begin = piece * kFewSequences;
      Level::forward_few(call, begin, std::min(begin + kFewSequences, count), scratch.of(worker));
    });
  });
}

// The heads' tasks of sequences that share keys follow one another.
void forward_screened(RowsCall call, Executor& executor) {
  const auto count = std::ssize(call.screened);
  with_isa([&](auto tag) {
    using Level = RowsKernel<decltype(tag)::kIsa>;
    const WorkerScratch scratch(executor.num_threads(), Level::screened_scratch(call));
    executor.run(count * call.problem->num_key_heads(), [&](int64_t i, int worker) {
      Level::forward_screened(call, i % count, i / count, scratch.of(worker));
    });
  });
}

// Groups are joined until a task has this number of queries.
std::vector<RowsTask> forward_tasks(const AttentionProblem& problem, const AttentionForward& in,
                                    const CandidateTables& tables) {
  std::vector<RowsTask> tasks;
  for (int64_t s = 0; s < static_cast<int64_t>(problem.sequences.size()); ++s) {
    const Sequence& sequence = problem.sequences[static_cast<size_t>(s)];
    if (is_few(problem, sequence) || is_long_step(problem, sequence) || is_screened(problem, in, sequence)) continue;
    for (int64_t h = 0; h < problem.num_heads; ++h) {
      const std::vector<RowGroup>& groups = tables.of(s, h).groups;
      for (int64_t begin = 0, end = 0; begin < static_cast<int64_t>(groups.size()); begin = end) {
        for (int64_t queries = 0; end < static_cast<int64_t>(groups.size()) && queries < kForwardQueries; ++end) {
          queries += groups[static_cast<size_t>(end)].queries;
        }
        tasks.push_back({.sequence = s, .head = h, .group_begin = begin, .group_end = end});
      }
    }
  }
  return tasks;
}

// Sets the task's range of keys to that of its groups.
void bound_keys(const Candidates& table, RowsTask& task) {
  int64_t begin = INT64_MAX, end = 0;
  for (int64_t g = task.group_begin; g < task.group_end; ++g) {
    const RowGroup& group = table.groups[static_cast<size_t>(g)];
    if (group.columns == 0) continue;
    const Span keys = table.keys_of(group);
    begin = std::min(begin, keys.begin);
    end = std::max(end, keys.end);
  }
  if (begin < end) task.keys_begin = begin, task.keys_end = end;
}

// Gives the tasks of a chain the range of all their groups.
void bound_chain(const CandidateTables& tables, std::span<RowsTask> chain) {
  Span keys{INT64_MAX, 0};
  for (RowsTask& task : chain) {
    bound_keys(tables.of(task.sequence, task.head), task);
    if (task.keys_begin == task.keys_end) continue;
    keys = {std::min(keys.begin, task.keys_begin), std::max(keys.end, task.keys_end)};
  }
  if (keys.begin >= keys.end) return;
  for (RowsTask& task : chain) task.keys_begin = keys.begin, task.keys_end = keys.end;
}

// The number of parts into which a head's pairs are split if `heads` query heads share its keys. Terms by offset have
// sums for each task, which more parts would multiply.
int64_t parts_of_head(const AttentionProblem& problem, const Candidates& table, int64_t heads) {
  const int64_t parts = parts_of(table.pairs);
  if (problem.offsets.any()) return parts;
  const int64_t chains = parts * problem.num_key_heads();
  return parts * std::min(heads, (kLeastChains + chains - 1) / chains);
}

// Adds the tasks of the query heads that share a head of keys, chain by chain.
void add_key_head(const AttentionProblem& problem, const CandidateTables& tables, int64_t sequence, int64_t key_head,
                  std::vector<RowsTask>& tasks) {
  const auto first = std::ssize(tasks);
  const int64_t first_head = problem.keys.first_head(key_head), heads = problem.heads_end(key_head) - first_head;
  std::vector<std::vector<int64_t>> begins;
  size_t most = 0;
  for (int64_t h = first_head; h < first_head + heads; ++h) {
    const Candidates& table = tables.of(sequence, h);
    begins.push_back(split_groups(table, parts_of_head(problem, table, heads)));
    most = std::max(most, begins.back().size());
  }
  for (size_t share = 0; share + 1 < most; ++share) {
    const auto chain = std::ssize(tasks);
    for (int64_t h = 0; h < heads; ++h) {
      const std::vector<int64_t>& of_head = begins[static_cast<size_t>(h)];
      if (share + 1 >= of_head.size()) continue;
      tasks.push_back({.sequence = sequence,
                       .head = first_head + h,
                       .group_begin = of_head[share],
                       .group_end = of_head[share + 1],
                       .part = std::ssize(tasks) - first,
                       .link = std::ssize(tasks) - chain});
    }
  }
  const std::span<RowsTask> added = std::span(tasks).subspan(static_cast<size_t>(first));
  if (added.size() == 1) return;
  for (RowsTask& task : added) task.parts = std::ssize(added);
  for (size_t begin = 0, end = 0; begin < added.size(); begin = end) {
    for (end = begin + 1; end < added.size() && added[end].link > 0;) ++end;
    bound_chain(tables, added.subspan(begin, end - begin));
  }
}

std::vector<RowsTask> backward_tasks(const AttentionProblem& problem, const CandidateTables& tables) {
  std::vector<RowsTask> tasks;
  for (int64_t s = 0; s < static_cast<int64_t>(problem.sequences.size()); ++s) {
    for (int64_t k = 0; k < problem.num_key_heads(); ++k) add_key_head(problem, tables, s, k, tasks);
  }
  return tasks;
}

// Whether a query sees enough keys, on average, that reading all rows once is little beside the products. Queries with
// lists of their own have no products of several rows, and neither has a sequence's only query.
Bf16Flags::Pays pays_bf16(const AttentionProblem& problem, const CandidateTables& tables) {
  return [&](int64_t sequence, int64_t head) {
    const int64_t queries = problem.sequences[static_cast<size_t>(sequence)].q_length;
    if (problem.given.any() || (queries == 1 && !problem.needs_backward)) return false;
    return tables.of(sequence, head).pairs >= kManyPairs * queries;
  };
}

void forward(const AttentionProblem& problem, const AttentionForward& in, Executor& executor) {
  std::vector<int64_t> few = sequences_that(problem, [&](const Sequence& s) { return is_few(problem, s); });
  const std::vector<int64_t> long_steps =
      sequences_that(problem, [&](const Sequence& s) { return is_long_step(problem, s); });
  // A row that is not finite is computed again where values of weight zero count nothing.
  const auto own_few = std::ssize(few);
  if (!long_steps.empty()) {
    for (const int64_t s : attend_long_steps(problem, in, long_steps, executor)) few.push_back(s);
  }
  if (!few.empty()) forward_few({.problem = &problem, .few = few, .forward = &in}, executor);
  const std::vector<int64_t> screened =
      sequences_that(problem, [&](const Sequence& s) { return is_screened(problem, in, s); });
  if (!screened.empty()) forward_screened({.problem = &problem, .screened = screened, .forward = &in}, executor);
  if (own_few + std::ssize(long_steps) + std::ssize(screened) == std::ssize(problem.sequences)) return;
  const CandidateTables tables(problem, in.random, in.given);
  const std::vector<RowsTask> tasks = forward_tasks(problem, in, tables);
  const Bf16Products bf16(problem, in, pays_bf16(problem, tables), executor);
  const RowsCall call{.problem = &problem, .tables = &tables, .tasks = tasks, .forward = &in, .bf16 = &bf16};
  with_isa([&](auto tag) {
    using Level = RowsKernel<decltype(tag)::kIsa>;
    const WorkerScratch scratch(tasks, executor.num_threads(),
                                [&](const RowsTask& task) { return Level::forward_scratch(call, task); });
    executor.run(static_cast<int64_t>(tasks.size()),
                 [&](int64_t i, int worker) { Level::forward(call, i, scratch.of(worker)); });
  });
}

std::vector<SharedTerms::Task> sharers(const AttentionProblem& problem, const std::vector<RowsTask>& tasks) {
  std::vector<SharedTerms::Task> all;
  for (const RowsTask& task : tasks) all.push_back({&problem.sequences[static_cast<size_t>(task.sequence)], task.head});
  return all;
}

void backward(const AttentionProblem& problem, const AttentionBackward& in, Executor& executor) {
  const CandidateTables tables(problem, in.random, in.given);
  const std::vector<RowsTask> tasks = backward_tasks(problem, tables);
  std::vector<double> grad_alpha(tasks.size());
  const Bf16Products bf16(problem, in, pays_bf16(problem, tables), executor);
  RowsCall call{.problem = &problem, .tables = &tables, .tasks = tasks, .backward = &in, .bf16 = &bf16};
  call.grad_alpha = grad_alpha.data();
  with_isa([&](auto tag) {
    using Level = RowsKernel<decltype(tag)::kIsa>;
    // The rows of a task's own sums, for dK and dV; none if its sums are the result.
    const auto rows = [](const RowsTask& task) { return SumRows{.keys = 2 * (task.keys_end - task.keys_begin)}; };
    const SharedTerms shared(problem, in.grad_terms, sharers(problem, tasks),
                             padded_to(Level::lanes(), problem.head_dim));
    call.shared_terms = &shared;
    run_parts<Level>(call, executor, rows);
    shared.add_up(executor);
  });
  if (in.grad_alpha != nullptr) sum_by_head(tasks, grad_alpha, {in.grad_alpha, static_cast<size_t>(problem.num_heads)});
}

}  // namespace

const Kernel kRowsKernel = {.name = "cpu-rows",
                            .summary = "whole score rows in cache, every mechanism; made for sentences",
                            .refuses = refuses,
                            .saved = saved,
                            .forward = forward,
                            .backward = backward};

}  // namespace fovea::kernels
