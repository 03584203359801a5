#include "fovea/kernels/attention/cpu/blocks.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "fovea/base/strings.h"
#include "fovea/kernels/attention/cpu/kernels.h"
#include "fovea/kernels/attention/cpu/offsets.h"

namespace fovea::kernels {
namespace {

std::vector<std::string> refuses(const AttentionProblem& problem) {
  std::vector<std::string> reasons = refusals_of(problem, kMaxBlocksHeadDim);
  if (problem.keys_listed) reasons.emplace_back("keys lie where a list says");
  if (!problem.given.any()) {
    reasons.emplace_back("no lists of blocks come with the call");
    return reasons;
  }
  if (problem.given.block < kLeastKeysOfBlock) {
    reasons.push_back(cat("the lists name blocks of ", problem.given.block, " keys, fewer than ", kLeastKeysOfBlock));
  }
  if (problem.offsets.product.count > 0) reasons.emplace_back("products by distance");
  if (problem.offsets.sums.count > 0) reasons.emplace_back("sums of weights by distance");
  if (!problem.spec.pairs().is_full()) reasons.emplace_back("the spec has a pattern");
  refuse_selection(problem.spec, reasons);
  const Transform& transform = problem.spec.transform;
  if (!std::holds_alternative<Softmax>(transform) && !std::holds_alternative<Sink>(transform)) {
    reasons.emplace_back("the transform is not softmax");
  }
  return reasons;
}

SavedPerRow saved(const AttentionProblem& problem) {
  return {.floats = problem.needs_backward ? blocks_stats(problem) : 0};
}

// With fewer queries a block of keys has too few of them for tiles.
constexpr LeastLengths kSuited = {.queries = 64, .keys = kManyKeys};

// The queries of a task of forward: they and their outputs stay in the nearer caches, and each block of keys that is
// laid out for them has many of them.
int64_t queries_of_task(const AttentionProblem& problem) {
  constexpr int64_t kFloats = 1 << 18, kLeast = 256;
  return std::max(kLeast, kFloats / padded_to(16, problem.head_dim));
}

int64_t blocks_of(const AttentionProblem& problem, const Sequence& s) {
  return (s.k_length + problem.given.block - 1) / problem.given.block;
}

// The queries begin ... end - 1 of a sequence under one head by the blocks of their lists.
class QueriesByBlock {
 public:
  QueriesByBlock(const AttentionProblem& problem, const GivenLists& given, const BlocksTask& task)
      : lists_(given.data + task.sequence->q_begin * given.token_stride +
               problem.list_head(task.head) * given.head_stride),
        stride_(given.token_stride),
        count_(problem.given.count),
        first_(static_cast<size_t>(blocks_of(problem, *task.sequence) + 1)) {
    each_entry(task, [&](int64_t, int32_t block) { ++first_[static_cast<size_t>(block) + 1]; });
    for (size_t b = 1; b < first_.size(); ++b) first_[b] += first_[b - 1];
    queries_.resize(static_cast<size_t>(first_.back()));
    std::vector<int32_t> next = first_;
    each_entry(task, [&](int64_t query, int32_t block) {
      queries_[static_cast<size_t>(next[static_cast<size_t>(block)]++)] = static_cast<int32_t>(query);
    });
  }
  BlockQueries get() const { return {first_.data(), queries_.data()}; }
  // The entries before a block's.
  int64_t before(int64_t block) const { return first_[static_cast<size_t>(block)]; }

 private:
  template <class Visit>
  void each_entry(const BlocksTask& task, const Visit& visit) const {
    for (int64_t query = task.begin; query < task.end; ++query) {
      const int32_t* list = lists_ + query * stride_;
      for (int64_t e = 0; e < count_ && list[e] >= 0; ++e) visit(query, list[e]);
    }
  }
  const int32_t* lists_;
  int64_t stride_, count_;
  std::vector<int32_t> first_, queries_;
};

std::vector<BlocksTask> forward_tasks(const AttentionProblem& problem) {
  std::vector<BlocksTask> tasks;
  const int64_t queries = queries_of_task(problem);
  for (const Sequence& s : problem.sequences) {
    for (int64_t head = 0; head < problem.num_heads; ++head) {
      // The last queries come first: causal ones may have more blocks to choose from.
      for (int64_t end = s.q_length; end > 0; end -= std::min(end, queries)) {
        tasks.push_back({.sequence = &s, .head = head, .begin = end - std::min(end, queries), .end = end});
      }
    }
  }
  return tasks;
}

void forward(const AttentionProblem& problem, const AttentionForward& in, Executor& executor) {
  const std::vector<BlocksTask> tasks = forward_tasks(problem);
  const BlocksCall call{.problem = &problem, .forward = &in};
  with_isa([&](auto tag) {
    using Level = BlocksKernel<decltype(tag)::kIsa>;
    const WorkerScratch scratch(tasks, executor.num_threads(),
                                [&](const BlocksTask& task) { return Level::forward_scratch(call, task); });
    executor.run(std::ssize(tasks), [&](int64_t i, int worker) {
      const BlocksTask& task = tasks[static_cast<size_t>(i)];
      const QueriesByBlock chosen(problem, in.given, task);
      Level::forward(call, task, chosen.get(), scratch.of(worker));
    });
  });
}

// Backward of the heads of a sequence that read one head of the keys. Its buffers live for the stages of a wave of such
// units: what all heads need at once would be several times as large as the inputs.
struct BlocksUnit {
  BlocksTask whole;  // all blocks of keys, all heads
  std::vector<BlocksTask> parts = {};
  std::vector<QueriesByBlock> by_head = {};
  std::vector<BlockQueries> chosen = {};
  Aligned<float> rows = {}, sums = {}, terms = {};
};

int64_t queries_of(const BlocksUnit& unit) { return unit.whole.heads * unit.whole.sequence->q_length; }

std::vector<BlocksUnit> units_of(const AttentionProblem& problem) {
  std::vector<BlocksUnit> units;
  for (const Sequence& s : problem.sequences) {
    for (int64_t key_head = 0; key_head < problem.num_key_heads(); ++key_head) {
      const int64_t first = problem.keys.first_head(key_head);
      BlocksUnit& unit = units.emplace_back();
      unit.whole = {.sequence = &s, .head = first, .heads = problem.heads_end(key_head) - first};
      unit.whole.end = blocks_of(problem, s);
    }
  }
  return units;
}

// Cuts the blocks into parts with similar shares of the pairs. Each part has its share of dQ, so there are few if many
// heads keep the threads busy.
void cut(const AttentionProblem& problem, BlocksUnit& unit) {
  const int64_t blocks = unit.whole.end, heads = problem.num_key_heads();
  int64_t entries = 0;
  for (const QueriesByBlock& own : unit.by_head) entries += own.before(blocks);
  const int64_t most = std::min((kLeastChains + heads - 1) / heads, std::max<int64_t>(blocks, 1));
  const int64_t parts = std::min(parts_of(entries * problem.given.block), most);
  int64_t begin = 0;
  for (int64_t part = 0; part < parts; ++part) {
    int64_t end = begin;
    const auto before = [&](int64_t block) {
      int64_t sum = 0;
      for (const QueriesByBlock& own : unit.by_head) sum += own.before(block);
      return sum;
    };
    while (end < blocks && before(end) * parts < entries * (part + 1)) ++end;
    BlocksTask task = unit.whole;
    task.begin = begin, task.end = part + 1 == parts ? blocks : end;
    unit.parts.push_back(task);
    begin = task.end;
  }
}

// Gradients that all sequences of a head add to, in the order of these.
struct BlocksShared {
  std::vector<double> sinks;    // [H]
  std::vector<double> by_head;  // [H, count], empty unless wanted
};

// The stages of the units of a wave.
template <class Level>
class BlocksWave {
 public:
  BlocksWave(const BlocksCall& call, std::span<BlocksUnit> units, Executor& executor, const WorkerScratch& scratch)
      : call_(call), units_(units), executor_(executor), scratch_(scratch) {
    for (size_t u = 0; u < units.size(); ++u) {
      for (int64_t h = 0; h < units[u].whole.heads; ++h) heads_.push_back({u, h});
    }
  }

  // Adds to the gradients that all sequences of a head share, and gives the units' buffers back.
  void run(BlocksShared& shared) {
    const int64_t padded = padded_to(Level::lanes(), call_.problem->head_dim);
    for (BlocksUnit& unit : units_) {
      unit.rows = aligned<float>(std::max<int64_t>(queries_of(unit) * floats_of_row(padded), 1));
      unit.whole.rows = unit.rows.get();
    }
    std::vector<double> own_sinks(heads_.size());
    std::vector<std::optional<QueriesByBlock>> by_head(heads_.size());
    executor_.run(std::ssize(heads_), [&](int64_t i, int worker) {
      const BlocksTask task = head_of(i, padded);
      by_head[static_cast<size_t>(i)].emplace(*call_.problem, call_.backward->given, task);
      own_sinks[static_cast<size_t>(i)] = Level::begin_backward(call_, task, scratch_.of(worker));
    });
    for (size_t i = 0; i < heads_.size(); ++i) units_[heads_[i].unit].by_head.push_back(std::move(*by_head[i]));
    std::vector<Place> parts;
    for (size_t u = 0; u < units_.size(); ++u) {
      BlocksUnit& unit = units_[u];
      for (const QueriesByBlock& own : unit.by_head) unit.chosen.push_back(own.get());
      cut(*call_.problem, unit);
      give_sums(unit, padded);
      for (int64_t part = 0; part < std::ssize(unit.parts); ++part) parts.push_back({u, part});
    }
    executor_.run(std::ssize(parts), [&](int64_t i, int worker) {
      const auto& [unit, part] = parts[static_cast<size_t>(i)];
      Level::backward(call_, units_[unit].parts[static_cast<size_t>(part)], units_[unit].chosen.data(),
                      scratch_.of(worker));
    });
    executor_.run(std::ssize(heads_), [&](int64_t i, int) {
      const BlocksTask task = head_of(i, padded);
      const auto& [unit, head] = heads_[static_cast<size_t>(i)];
      const int64_t terms = terms_of(*task.sequence).end;
      std::vector<BlocksShare> shares;
      for (const BlocksTask& part : units_[unit].parts)
        shares.push_back({part.sums + head * task.sequence->q_length * padded, part.terms + head * terms});
      Level::join(call_, task, shares);
    });
    for (size_t i = 0; i < heads_.size(); ++i) add_shared(heads_[i], own_sinks[i], shared);
    for (BlocksUnit& unit : units_) unit = {};
  }

 private:
  struct Place {
    size_t unit;
    int64_t index;  // of a head or a part
  };
  BlocksTermSums terms_of(const Sequence& sequence) const {
    return {*call_.problem, call_.backward->grad_terms, sequence};
  }
  // The room of each part's sums.
  void give_sums(BlocksUnit& unit, int64_t padded) const {
    const int64_t floats = padded_to(16, queries_of(unit) * padded), parts = std::ssize(unit.parts);
    const int64_t terms = padded_to(16, unit.whole.heads * terms_of(*unit.whole.sequence).end);
    unit.sums = aligned<float>(std::max<int64_t>(floats * parts, 1));
    unit.terms = aligned<float>(std::max<int64_t>(terms * parts, 1));
    for (int64_t part = 0; part < parts; ++part) {
      BlocksTask& task = unit.parts[static_cast<size_t>(part)];
      task.sums = unit.sums.get() + part * floats, task.terms = unit.terms.get() + part * terms;
    }
  }
  void add_shared(const Place& place, double sink, BlocksShared& shared) const {
    const BlocksUnit& unit = units_[place.unit];
    const int64_t head = unit.whole.head + place.index;
    shared.sinks[static_cast<size_t>(head)] += sink;
    if (shared.by_head.empty()) return;
    const OffsetRange& range = call_.problem->offsets.by_head;
    const BlocksTermSums terms = terms_of(*unit.whole.sequence);
    double* to = shared.by_head.data() + head * range.count + terms.by_head_range.first - range.first;
    for (const BlocksTask& part : unit.parts) {
      const float* from = part.terms + place.index * terms.end + terms.by_head;
      for (int64_t o = 0; o < terms.by_head_range.count; ++o) to[o] += from[o];
    }
  }
  // All queries of a head.
  BlocksTask head_of(int64_t i, int64_t padded) const {
    const auto& [unit, head] = heads_[static_cast<size_t>(i)];
    BlocksTask task = units_[unit].whole;
    const int64_t queries = task.sequence->q_length;
    task.head += head, task.heads = 1, task.begin = 0, task.end = queries;
    task.rows += head * queries * floats_of_row(padded);
    return task;
  }

  const BlocksCall& call_;
  std::span<BlocksUnit> units_;
  Executor& executor_;
  const WorkerScratch& scratch_;
  std::vector<Place> heads_;
};

void backward(const AttentionProblem& problem, const AttentionBackward& in, Executor& executor) {
  const BlocksCall call{.problem = &problem, .backward = &in};
  BlocksShared shared{.sinks = std::vector<double>(static_cast<size_t>(problem.num_heads)), .by_head = {}};
  if (in.grad_terms.by_head != nullptr)
    shared.by_head.resize(static_cast<size_t>(problem.num_heads * problem.offsets.by_head.count));
  with_isa([&](auto tag) {
    using Level = BlocksKernel<decltype(tag)::kIsa>;
    const WorkerScratch scratch(executor.num_threads(), Level::backward_scratch(call));
    const int64_t padded = padded_to(Level::lanes(), problem.head_dim);
    std::vector<BlocksUnit> units = units_of(problem);
    // Short sequences go together, long ones as many as there are threads.
    constexpr int64_t kFloatsOfWave = 1 << 20;
    for (size_t begin = 0, end = 0; begin < units.size(); begin = end) {
      int64_t floats = 0;
      while (end < units.size() &&
             (floats < kFloatsOfWave || end - begin < static_cast<size_t>(executor.num_threads())))
        floats += queries_of(units[end++]) * padded;
      BlocksWave<Level> wave(call, std::span(units).subspan(begin, end - begin), executor, scratch);
      wave.run(shared);
    }
  });
  const auto narrow = [](double x) { return static_cast<float>(x); };
  if (in.grad_alpha != nullptr) std::ranges::transform(shared.sinks, in.grad_alpha, narrow);
  std::ranges::transform(shared.by_head, in.grad_terms.by_head, narrow);
}

}  // namespace

BlocksTermSums::BlocksTermSums(const AttentionProblem& problem, const OffsetGradients& wanted,
                               const Sequence& sequence) {
  if (wanted.by_query.data != nullptr) by_head = sequence.q_length * problem.offsets.by_query.count;
  if (wanted.by_head != nullptr) by_head_range = met_by(problem.offsets.by_head, problem, sequence);
  end = by_head + by_head_range.count;
}

const Kernel kBlocksKernel = {.name = "cpu-blocks",
                              .summary = "softmax over listed blocks of keys, block by block",
                              .refuses = refuses,
                              .saved = saved,
                              .forward = forward,
                              .backward = backward,
                              .suited = kSuited};

}  // namespace fovea::kernels
