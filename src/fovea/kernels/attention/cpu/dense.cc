#include "fovea/kernels/attention/cpu/dense.h"

#include <algorithm>
#include <variant>

#include "fovea/base/strings.h"
#include "fovea/kernels/attention/cpu/kernels.h"
#include "fovea/kernels/attention/cpu/scratch.h"

namespace fovea::kernels {
namespace {

constexpr int64_t kForwardQueries = 384;      // of a task: packing the keys anew for each is small beside the products
constexpr int64_t kPairsInOnePart = 1 << 19;  // above, backward is split among kParts tasks whatever the threads are
constexpr int64_t kParts = 4;

std::vector<std::string> refuses(const AttentionProblem& problem) {
  std::vector<std::string> reasons;
  if (problem.dtype == DType::kFloat64) reasons.emplace_back("float64 is left to the reference");
  if (problem.head_dim > kMaxDenseHeadDim) {
    reasons.push_back(cat("head_dim ", problem.head_dim, " is above ", kMaxDenseHeadDim));
  }
  if (problem.keys_listed) reasons.emplace_back("keys lie where a list says");
  if (!problem.spec.pairs.is_full()) reasons.emplace_back("the spec has a pattern");
  if (problem.spec.select) reasons.emplace_back("the spec has topk");
  if (!std::holds_alternative<Softmax>(problem.spec.transform) && !is_pointwise(problem.spec.transform)) {
    reasons.emplace_back("the transform needs whole rows of scores");
  }
  return reasons;
}

SavedPerRow saved(const AttentionProblem& problem) {
  return {.floats = problem.needs_backward ? dense_stats(problem) : 0};
}

// With few queries (a decoder's step) laying out the keys costs more than the products.
bool suits(const AttentionProblem&, const Sequence& sequence) {
  return sequence.k_length >= kManyKeys && sequence.q_length >= 4;
}

std::vector<DenseTask> forward_tasks(const AttentionProblem& problem) {
  std::vector<DenseTask> tasks;
  for (const Sequence& s : problem.sequences) {
    for (int64_t head = 0; head < problem.num_heads; ++head) {
      // The last queries first: causal ones see the most keys.
      for (int64_t end = s.q_length; end > 0; end -= std::min(end, kForwardQueries)) {
        tasks.push_back({&s, head, end - std::min(end, kForwardQueries), end});
      }
    }
  }
  return tasks;
}

std::vector<DenseTask> backward_tasks(const AttentionProblem& problem) {
  std::vector<DenseTask> tasks;
  for (const Sequence& s : problem.sequences) {
    const int64_t parts = s.q_length * s.k_length > kPairsInOnePart ? kParts : 1;
    for (int64_t head = 0; head < problem.num_heads; ++head) {
      for (int64_t part = 0; part < parts; ++part) {
        tasks.push_back({&s, head, s.k_length * part / parts, s.k_length * (part + 1) / parts, part, parts});
      }
    }
  }
  return tasks;
}

bool always(int64_t, int64_t) { return true; }

void forward(const AttentionProblem& problem, const AttentionForward& in, Executor& executor) {
  const std::vector<DenseTask> tasks = forward_tasks(problem);
  const Bf16Products bf16(problem, in, always, executor);
  const DenseCall call{.problem = &problem, .tasks = tasks, .forward = &in, .bf16 = &bf16};
  with_isa([&](auto tag) {
    using Level = DenseKernel<decltype(tag)::kIsa>;
    const WorkerScratch scratch(tasks, executor.num_threads(),
                                [&](const DenseTask& task) { return Level::forward_scratch(call, task); });
    executor.run(static_cast<int64_t>(tasks.size()),
                 [&](int64_t i, int worker) { Level::forward(call, i, scratch.of(worker)); });
  });
}

// Places for the partial sums of dQ; returns their floats.
int64_t place_partials(const std::vector<DenseTask>& tasks, int64_t padded, std::vector<int64_t>& places) {
  int64_t floats = 0;
  for (const DenseTask& task : tasks) {
    places.push_back(floats);
    if (task.parts > 1) floats += task.sequence->q_length * padded;
  }
  return floats;
}

void backward(const AttentionProblem& problem, const AttentionBackward& in, Executor& executor) {
  const std::vector<DenseTask> tasks = backward_tasks(problem);
  const Bf16Products bf16(problem, in, always, executor);
  DenseCall call{.problem = &problem, .tasks = tasks, .backward = &in, .bf16 = &bf16};
  with_isa([&](auto tag) {
    using Level = DenseKernel<decltype(tag)::kIsa>;
    const WorkerScratch scratch(tasks, executor.num_threads(),
                                [&](const DenseTask& task) { return Level::backward_scratch(call, task); });
    const int64_t padded = (problem.head_dim + Level::lanes() - 1) / Level::lanes() * Level::lanes();
    const AlignedFloats partials(place_partials(tasks, padded, call.partial_at) + 16);
    call.partials = partials.data();
    const auto count = static_cast<int64_t>(tasks.size());
    executor.run(count, [&](int64_t i, int worker) { Level::backward(call, i, scratch.of(worker)); });
    executor.run(count, [&](int64_t i, int) {
      const DenseTask& task = tasks[static_cast<size_t>(i)];
      if (task.parts > 1 && task.part == 0) Level::join(call, i);
    });
  });
  if (in.grad_alpha != nullptr) std::fill_n(in.grad_alpha, problem.num_heads, 0.0F);
}

}  // namespace

const Kernel kDenseKernel = {.name = "cpu-dense",
                             .summary = "all pairs by blocks of keys: softmax and functions of single scores",
                             .refuses = refuses,
                             .saved = saved,
                             .forward = forward,
                             .backward = backward,
                             .suits = suits,
                             .suited = "sequences of at least 4 queries and 256 keys"};

}  // namespace fovea::kernels
