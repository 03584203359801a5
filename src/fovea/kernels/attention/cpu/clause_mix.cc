#include "fovea/kernels/attention/cpu/clause_mix.h"

#include <algorithm>

#include "fovea/kernels/attention/cpu/scratch.h"

namespace fovea::kernels {
namespace {

// Below this many products waking another thread costs more than it brings.
constexpr int64_t kMixWorthThreads = int64_t{1} << 16;

// In the order of the sequences, heads inside.
std::vector<ClauseMixTask> mix_tasks(const ClauseMixShape& shape) {
  std::vector<ClauseMixTask> tasks;
  for (size_t b = 0; b + 1 < shape.offsets.size(); ++b)
    for (int64_t head = 0; head < shape.heads; ++head)
      tasks.push_back({shape.offsets[b], shape.offsets[b + 1] - shape.offsets[b], head});
  return tasks;
}

// Calls work(task number, scratch) for each task.
template <class Work>
void run_mix(const ClauseMixShape& shape, const std::vector<ClauseMixTask>& tasks, bool backward, Executor& executor,
             const Work& work) {
  int64_t products = 0;
  for (const ClauseMixTask& task : tasks) products += task.length * task.length * shape.head_dim;
  SerialExecutor serial;
  Executor& chosen = products < kMixWorthThreads ? serial : executor;
  // A shorter sequence can need more than a longer one, because more of its rows are worked on at once.
  const WorkerScratch scratch(tasks, chosen.num_threads(), [&](const ClauseMixTask& task) {
    return with_isa(
        [&](auto tag) { return ClauseMixKernel<decltype(tag)::kIsa>::scratch(shape, task.length, backward); });
  });
  chosen.run(std::ssize(tasks), [&](int64_t i, int worker) { work(i, scratch.of(worker)); });
}

}  // namespace

void clause_mix(const ClauseMixShape& shape, const ClauseMixForward& job, Executor& executor) {
  const std::vector<ClauseMixTask> tasks = mix_tasks(shape);
  run_mix(shape, tasks, false, executor, [&](int64_t i, float* scratch) {
    with_isa([&](auto tag) {
      ClauseMixKernel<decltype(tag)::kIsa>::run(shape, job, tasks[static_cast<size_t>(i)], scratch);
    });
  });
}

void clause_mix(const ClauseMixShape& shape, const ClauseMixBackward& job, Executor& executor) {
  const std::vector<ClauseMixTask> tasks = mix_tasks(shape);
  std::vector<double> parts(tasks.size() * static_cast<size_t>(shape.levels), 0.0);
  run_mix(shape, tasks, true, executor, [&](int64_t i, float* scratch) {
    with_isa([&](auto tag) {
      ClauseMixKernel<decltype(tag)::kIsa>::run(shape, job, tasks[static_cast<size_t>(i)], scratch,
                                                parts.data() + i * shape.levels);
    });
  });
  // In the order of the tasks, whatever threads ran them.
  std::vector<double> sums(static_cast<size_t>(shape.levels * shape.heads), 0.0);
  for (size_t i = 0; i < tasks.size(); ++i)
    for (int64_t l = 0; l < shape.levels; ++l)
      sums[static_cast<size_t>(l * shape.heads + tasks[i].head)] +=
          parts[i * static_cast<size_t>(shape.levels) + static_cast<size_t>(l)];
  std::ranges::transform(sums, job.grad_p, [](double sum) { return static_cast<float>(sum); });
}

}  // namespace fovea::kernels
