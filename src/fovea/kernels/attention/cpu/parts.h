#pragma once
#include <cstdint>

#include "fovea/base/executor.h"
#include "fovea/base/workspace.h"
#include "fovea/kernels/attention/cpu/scratch.h"

// Backward in parts: a sequence with many pairs is split among several tasks under each head, each with its own sums of
// what all of them add to. The split does not depend on the threads at hand, so neither do the sums.
namespace fovea::kernels {

constexpr int64_t padded_to(int64_t lanes, int64_t width) { return (width + lanes - 1) / lanes * lanes; }

constexpr int64_t kPairsInOnePart = 1 << 19;
constexpr int64_t parts_of(int64_t pairs) { return pairs > kPairsInOnePart ? 4 : 1; }

// Runs the call's tasks, then joins the sums of those that share a sequence and head. Level: the kernel's code of one
// instruction set. rows(task): how many rows of sums it keeps; finish() may read these.
template <class Level, class Call, class Rows, class Finish>
void run_parts(Call& call, Executor& executor, const Rows& rows, const Finish& finish) {
  const WorkerScratch scratch(call.tasks, executor.num_threads(),
                              [&](const auto& task) { return Level::backward_scratch(call, task); });
  const int64_t padded = padded_to(Level::lanes(), call.problem->head_dim);
  int64_t floats = 0;
  for (const auto& task : call.tasks) {
    call.partial_at.push_back(floats);
    floats += rows(task) * padded;
  }
  const Aligned<float> partials = aligned<float>(floats);
  call.partials = partials.get();
  const auto count = static_cast<int64_t>(call.tasks.size());
  executor.run(count, [&](int64_t i, int worker) { Level::backward(call, i, scratch.of(worker)); });
  executor.run(count, [&](int64_t i, int) {
    const auto& task = call.tasks[static_cast<size_t>(i)];
    if (task.parts > 1 && task.part == 0) Level::join(call, i);
  });
  finish();
}
template <class Level, class Call, class Rows>
void run_parts(Call& call, Executor& executor, const Rows& rows) {
  run_parts<Level>(call, executor, rows, [] {});
}

}  // namespace fovea::kernels
