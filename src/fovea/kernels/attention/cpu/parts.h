#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "fovea/base/executor.h"
#include "fovea/base/workspace.h"
#include "fovea/kernels/attention/cpu/scratch.h"

// Backward in parts: a sequence with many pairs is split among several tasks under each head, and each task sums by
// itself. The split does not depend on the number of threads, so neither do the sums.
//
// If query heads share keys, tasks of several heads form a chain: they run one after the other, in the order of the
// list, and add to the same sums of dK and dV. Their fields: `link`, the place in the chain, and `links`, its length.
namespace fovea::kernels {

constexpr int64_t padded_to(int64_t lanes, int64_t width) { return (width + lanes - 1) / lanes * lanes; }

constexpr int64_t kPairsInOnePart = 1 << 19;
constexpr int64_t parts_of(int64_t pairs) { return pairs > kPairsInOnePart ? 4 : 1; }

constexpr int64_t kLeastChains = 16;  // of a sequence, if it has so many tasks: what threads share among them

// Sums of tasks, in floats from `data`.
struct PartialSums {
  float* data = nullptr;
  std::vector<int64_t> keys_at = {}, own_at = {};  // of each task: dK and dV, which a chain shares; the others
  float* keys(int64_t task) const { return data + keys_at[static_cast<size_t>(task)]; }
  float* own(int64_t task) const { return data + own_at[static_cast<size_t>(task)]; }
};

// Writes the sums of the tasks' shares by head.
template <class Tasks>
void sum_by_head(const Tasks& tasks, const std::vector<double>& shares, std::span<float> out) {
  std::vector<double> sums(out.size());
  for (size_t i = 0; i < tasks.size(); ++i) sums[static_cast<size_t>(tasks[i].head)] += shares[i];
  for (size_t head = 0; head < out.size(); ++head) out[head] = static_cast<float>(sums[head]);
}

struct SumRows {
  int64_t keys = 0, own = 0;
};

// Indices of the first task of each chain, and the end.
template <class Tasks>
std::vector<int64_t> chains_of(const Tasks& tasks) {
  std::vector<int64_t> begins;
  for (int64_t i = 0; i < std::ssize(tasks); ++i) {
    if (tasks[static_cast<size_t>(i)].link == 0) begins.push_back(i);
  }
  begins.push_back(std::ssize(tasks));
  return begins;
}

// Lays out the sums of all tasks and returns how many floats they take. rows(task): SumRows.
template <class Call, class Rows>
int64_t lay_out_sums(Call& call, int64_t padded, const Rows& rows) {
  int64_t floats = 0;
  for (const auto& task : call.tasks) {
    const SumRows needs = rows(task);
    call.sums.keys_at.push_back(task.link > 0 ? call.sums.keys_at.back() : floats);
    if (task.link == 0) floats += needs.keys * padded;
    call.sums.own_at.push_back(floats);
    floats += needs.own * padded;
  }
  return floats;
}

// Runs the call's tasks, then finish(), which may read their sums. Level: the kernel's code of one instruction set.
template <class Level, class Call, class Rows, class Finish>
void run_parts(Call& call, Executor& executor, const Rows& rows, const Finish& finish) {
  const WorkerScratch scratch(call.tasks, executor.num_threads(),
                              [&](const auto& task) { return Level::backward_scratch(call, task); });
  const Aligned<float> sums =
      aligned<float>(lay_out_sums(call, padded_to(Level::lanes(), call.problem->head_dim), rows));
  call.sums.data = sums.get();
  const std::vector<int64_t> chains = chains_of(call.tasks);
  executor.run(std::ssize(chains) - 1, [&](int64_t c, int worker) {
    for (int64_t i = chains[static_cast<size_t>(c)]; i < chains[static_cast<size_t>(c) + 1]; ++i) {
      Level::backward(call, i, scratch.of(worker));
    }
  });
  executor.run(std::ssize(call.tasks), [&](int64_t i, int) {
    if (call.tasks[static_cast<size_t>(i)].begins_join()) Level::join(call, i);
  });
  finish();
}
template <class Level, class Call, class Rows>
void run_parts(Call& call, Executor& executor, const Rows& rows) {
  run_parts<Level>(call, executor, rows, [] {});
}

}  // namespace fovea::kernels
