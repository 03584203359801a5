#include "fovea/kernels/attention/cpu/rows.h"

#include <algorithm>
#include <variant>

#include "fovea/base/strings.h"

namespace fovea::kernels {
namespace {

// Queries of a forward task; packing a sequence's keys anew for each is small beside the products.
constexpr int64_t kForwardQueries = 256;
// Above this many pairs a sequence's backward is split among so many tasks, each with its own sums of dK and dV.
constexpr int64_t kPairsInOnePart = 1 << 20;
constexpr int64_t kParts = 4;
constexpr int64_t kMaxHeadDim = 1024;

std::vector<std::string> refuses(const AttentionProblem& problem) {
  std::vector<std::string> reasons;
  if (problem.dtype == DType::kFloat64) reasons.push_back("float64: this kernel computes in float32");
  if (problem.head_dim > kMaxHeadDim) reasons.push_back(cat("head_dim ", problem.head_dim, " is above ", kMaxHeadDim));
  return reasons;
}

SavedPerRow saved(const AttentionProblem& problem) {
  if (!problem.needs_backward) return {};
  const Transform& transform = problem.spec.transform;
  const bool pointwise = std::holds_alternative<Relu>(transform) || std::holds_alternative<Gelu>(transform) ||
                         std::holds_alternative<LeakyRelu>(transform);
  return {.floats = (pointwise ? 0 : 2) + (problem.spec.select ? 1 : 0)};
}

std::vector<RowsTask> forward_tasks(const AttentionProblem& problem) {
  std::vector<RowsTask> tasks;
  for (size_t s = 0; s < problem.sequences.size(); ++s) {
    const int64_t queries = problem.sequences[s].q_length;
    for (int64_t h = 0; h < problem.num_heads; ++h) {
      for (int64_t i = 0; i < queries; i += kForwardQueries) {
        tasks.push_back({.sequence = static_cast<int64_t>(s),
                         .head = h,
                         .q_first = i,
                         .q_count = std::min(kForwardQueries, queries - i)});
      }
    }
  }
  return tasks;
}

// One task a sequence and head, also where there are no queries: its keys' gradients must become zero.
std::vector<RowsTask> backward_tasks(const AttentionProblem& problem) {
  std::vector<RowsTask> tasks;
  for (size_t s = 0; s < problem.sequences.size(); ++s) {
    const Sequence& sequence = problem.sequences[s];
    const bool split = sequence.q_length >= kParts && sequence.q_length * sequence.k_length > kPairsInOnePart;
    const int64_t parts = split ? kParts : 1;
    for (int64_t h = 0; h < problem.num_heads; ++h) {
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t begin = sequence.q_length * part / parts, end = sequence.q_length * (part + 1) / parts;
        tasks.push_back({.sequence = static_cast<int64_t>(s),
                         .head = h,
                         .q_first = begin,
                         .q_count = end - begin,
                         .part = part,
                         .parts = parts});
      }
    }
  }
  return tasks;
}

// One scratch space a worker, as large as the largest task needs.
template <class Floats>
class WorkerScratch {
 public:
  WorkerScratch(const std::vector<RowsTask>& tasks, int workers, const Floats& floats)
      : each_(most(tasks, floats)), block_(each_ * workers) {}
  float* of(int worker) const { return block_.data() + each_ * worker; }

 private:
  static int64_t most(const std::vector<RowsTask>& tasks, const Floats& floats) {
    int64_t most = 16;
    for (const RowsTask& task : tasks) most = std::max(most, floats(task));
    return (most + 15) / 16 * 16;
  }
  int64_t each_;
  AlignedFloats block_;
};

void forward(const AttentionProblem& problem, const AttentionForward& in, Executor& executor) {
  const CandidateTables tables(problem, in.random);
  const RowsCall call{.problem = &problem, .tables = &tables, .forward = &in};
  const std::vector<RowsTask> tasks = forward_tasks(problem);
  with_isa([&](auto tag) {
    using Isa = RowsKernel<decltype(tag)::kIsa>;
    const WorkerScratch scratch(tasks, executor.num_threads(),
                                [&](const RowsTask& task) { return Isa::forward_scratch(problem, task); });
    executor.run(static_cast<int64_t>(tasks.size()),
                 [&](int64_t i, int worker) { Isa::forward(call, tasks[static_cast<size_t>(i)], scratch.of(worker)); });
  });
}

// Places for the partial sums of dK and dV; returns their floats.
int64_t place_partials(const AttentionProblem& problem, const std::vector<RowsTask>& tasks, int64_t lanes,
                       std::vector<int64_t>& places) {
  const int64_t padded = (problem.head_dim + lanes - 1) / lanes * lanes;
  int64_t floats = 0;
  for (const RowsTask& task : tasks) {
    places.push_back(floats);
    if (task.parts > 1) floats += 2 * problem.sequences[static_cast<size_t>(task.sequence)].k_length * padded;
  }
  return floats;
}

void sum_alpha(const std::vector<RowsTask>& tasks, const std::vector<double>& shares, const AttentionBackward& in,
               int64_t num_heads) {
  std::vector<double> sums(static_cast<size_t>(num_heads));
  for (size_t i = 0; i < tasks.size(); ++i) sums[static_cast<size_t>(tasks[i].head)] += shares[i];
  for (int64_t h = 0; h < num_heads; ++h) in.grad_alpha[h] = static_cast<float>(sums[static_cast<size_t>(h)]);
}

void backward(const AttentionProblem& problem, const AttentionBackward& in, Executor& executor) {
  const CandidateTables tables(problem, in.random);
  const std::vector<RowsTask> tasks = backward_tasks(problem);
  std::vector<double> grad_alpha(tasks.size());
  RowsCall call{.problem = &problem, .tables = &tables, .backward = &in};
  call.grad_alpha = grad_alpha.data();
  with_isa([&](auto tag) {
    using Isa = RowsKernel<decltype(tag)::kIsa>;
    const WorkerScratch scratch(tasks, executor.num_threads(),
                                [&](const RowsTask& task) { return Isa::backward_scratch(problem, task); });
    const AlignedFloats partials(place_partials(problem, tasks, Isa::lanes(), call.partial_at) + 16);
    call.partials = partials.data();
    const auto count = static_cast<int64_t>(tasks.size());
    executor.run(count, [&](int64_t i, int worker) {
      Isa::backward(call, tasks[static_cast<size_t>(i)], i, scratch.of(worker));
    });
    executor.run(count, [&](int64_t i, int) {
      const RowsTask& task = tasks[static_cast<size_t>(i)];
      if (task.parts > 1 && task.part == 0) Isa::join(call, task, i);
    });
  });
  if (in.grad_alpha != nullptr) sum_alpha(tasks, grad_alpha, in, problem.num_heads);
}

}  // namespace

const Kernel kRowsKernel = {.name = "cpu-rows",
                            .summary = "whole score rows in cache, every mechanism; made for sentences",
                            .refuses = refuses,
                            .saved = saved,
                            .forward = forward,
                            .backward = backward};

}  // namespace fovea::kernels
