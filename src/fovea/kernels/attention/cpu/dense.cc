#include "fovea/kernels/attention/cpu/dense.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "fovea/kernels/attention/cpu/kernels.h"

namespace fovea::kernels {
namespace {

// The queries of a task: packing the keys for each task is small beside the products, which take less time by tiles.
constexpr int64_t kForwardQueries = 384, kTiledQueries = 768;

std::vector<std::string> refuses(const AttentionProblem& problem) {
  std::vector<std::string> reasons = refusals_of(problem, kMaxDenseHeadDim);
  if (problem.offsets.sums.count > 0) reasons.emplace_back("sums of weights by distance");
  refuse_named_keys(problem, reasons);
  if (!problem.spec.pairs().is_full() && !leaves_out_own(problem)) reasons.emplace_back("the spec has a pattern");
  refuse_selection(problem.spec, reasons);
  const Transform& transform = problem.spec.transform;
  if (!std::holds_alternative<Softmax>(transform) && !std::holds_alternative<Sink>(transform) &&
      !is_pointwise(transform)) {
    reasons.emplace_back("the transform needs whole rows of scores");
  }
  return reasons;
}

SumRows rows_of_sums(const AttentionProblem& problem, const OffsetGradients& wanted, const DenseTask& task,
                     int64_t padded) {
  SumRows rows{.keys = problem.keys.any() ? key_sums(task) : 0};
  if (task.parts > 1) {
    rows.own = (QuerySums(problem, wanted, task.sequence->q_length, padded).end + padded - 1) / padded;
  }
  return rows;
}

SavedPerRow saved(const AttentionProblem& problem) {
  return {.floats = problem.needs_backward ? dense_stats(problem) : 0};
}

// With fewer queries (a decoder's step) laying out the keys costs more than the products.
constexpr LeastLengths kSuited = {.queries = 4, .keys = kManyKeys};

std::vector<DenseTask> forward_tasks(const AttentionProblem& problem) {
  std::vector<DenseTask> tasks;
  const int64_t queries = has_tiles() && problem.dtype == DType::kBFloat16 ? kTiledQueries : kForwardQueries;
  for (const Sequence& s : problem.sequences) {
    for (int64_t head = 0; head < problem.num_heads; ++head) {
      // The last queries come first, because causal ones see the most keys.
      for (int64_t end = s.q_length; end > 0; end -= std::min(end, queries)) {
        tasks.push_back({&s, head, end - std::min(end, queries), end});
      }
    }
  }
  return tasks;
}

// The number of the `heads` heads sharing keys that read them in one chain: a divisor, the greatest that leaves
// kLeastChains chains of the sequence.
int64_t links_of(const AttentionProblem& problem, int64_t heads, int64_t parts) {
  int64_t links = heads;
  while (links > 1 && (heads % links != 0 || problem.num_heads * parts < kLeastChains * links)) --links;
  return links;
}

std::vector<DenseTask> backward_tasks(const AttentionProblem& problem) {
  std::vector<DenseTask> tasks;
  for (const Sequence& s : problem.sequences) {
    const int64_t parts = parts_of(s.q_length * s.k_length);
    for (int64_t head = 0; head < problem.num_heads;) {
      const int64_t key_head = problem.key_head(head),
                    heads = problem.heads_end(key_head) - problem.keys.first_head(key_head);
      const int64_t links = links_of(problem, heads, parts);
      for (int64_t part = 0; part < parts; ++part) {
        for (int64_t link = 0; link < links; ++link) {
          tasks.push_back({.sequence = &s,
                           .head = head + link,
                           .begin = s.k_length * part / parts,
                           .end = s.k_length * (part + 1) / parts,
                           .part = part,
                           .parts = parts,
                           .link = link,
                           .links = links});
        }
      }
      head += links;
    }
  }
  return tasks;
}

bool is_first_of_key_head(const AttentionProblem& problem, const DenseTask& task) {
  return task.head == problem.keys.first_head(problem.key_head(task.head));
}

bool always(int64_t, int64_t) { return true; }

// The heads that go by tiles, and the others that go by pairs of bfloat16.
struct DenseProducts {
  TiledHeads tiled;
  Bf16Products bf16;
  template <class Args>
  DenseProducts(const AttentionProblem& problem, const Args& in, Executor& executor) : tiled(problem, in, executor) {
    if (!has_tiles()) bf16 = Bf16Products(problem, in, always, executor);
  }
};

// Products of floats have no tiles.
template <class Work>
void at_level(const AttentionProblem& problem, Work&& work) {
  if (problem.dtype == DType::kBFloat16) return with_tiled_isa(work);
  with_isa(work);
}

void forward(const AttentionProblem& problem, const AttentionForward& in, Executor& executor) {
  const std::vector<DenseTask> tasks = forward_tasks(problem);
  const DenseProducts products(problem, in, executor);
  const DenseCall call{
      .problem = &problem, .tasks = tasks, .forward = &in, .bf16 = &products.bf16, .tiled = &products.tiled};
  at_level(problem, [&](auto tag) {
    using Level = DenseKernel<decltype(tag)::kIsa>;
    const WorkerScratch scratch(tasks, executor.num_threads(),
                                [&](const DenseTask& task) { return Level::forward_scratch(call, task); });
    executor.run(static_cast<int64_t>(tasks.size()),
                 [&](int64_t i, int worker) { Level::forward(call, i, scratch.of(worker)); });
  });
}

void backward(const AttentionProblem& problem, const AttentionBackward& in, Executor& executor) {
  const std::vector<DenseTask> tasks = backward_tasks(problem);
  const DenseProducts products(problem, in, executor);
  DenseCall call{
      .problem = &problem, .tasks = tasks, .backward = &in, .bf16 = &products.bf16, .tiled = &products.tiled};
  std::vector<double> grad_alpha(tasks.size());
  if (in.grad_alpha != nullptr && std::holds_alternative<Sink>(problem.spec.transform))
    call.grad_alpha = grad_alpha.data();
  at_level(problem, [&](auto tag) {
    using Level = DenseKernel<decltype(tag)::kIsa>;
    const int64_t padded = padded_to(Level::lanes(), problem.head_dim);
    const auto rows = [&](const DenseTask& task) { return rows_of_sums(problem, in.grad_terms, task, padded); };
    std::vector<SharedTerms::Task> sharers;
    for (const DenseTask& task : tasks) sharers.push_back({task.sequence, task.head});
    const SharedTerms shared(problem, in.grad_terms, std::move(sharers), padded);
    call.shared_terms = &shared;
    run_parts<Level>(call, executor, rows, [&] {
      if (!problem.keys.any()) return;
      executor.run(static_cast<int64_t>(tasks.size()), [&](int64_t i, int) {
        if (is_first_of_key_head(problem, tasks[static_cast<size_t>(i)])) Level::join_heads(call, i);
      });
    });
    shared.add_up(executor);
  });
  if (in.grad_alpha != nullptr) sum_by_head(tasks, grad_alpha, {in.grad_alpha, static_cast<size_t>(problem.num_heads)});
}

}  // namespace

QuerySums::QuerySums(const AttentionProblem& problem, const OffsetGradients& wanted, int64_t q_length, int64_t padded) {
  const int64_t rows = padded_to(16, q_length);
  queries = rows * padded;
  by_query = queries + (wanted.queries.data == nullptr ? 0 : rows * padded);
  end = by_query + (wanted.by_query.data == nullptr ? 0 : q_length * problem.offsets.by_query.count);
}

const Kernel kDenseKernel = {.name = "cpu-dense",
                             .summary = "all pairs by blocks of keys: softmax and functions of single scores",
                             .refuses = refuses,
                             .saved = saved,
                             .forward = forward,
                             .backward = backward,
                             .suited = kSuited};

}  // namespace fovea::kernels
