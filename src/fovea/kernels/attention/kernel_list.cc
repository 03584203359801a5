#include <algorithm>
#include <cstdlib>
#include <limits>

#include "fovea/base/strings.h"
#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/cpu/kernels.h"
#include "fovea/kernels/attention/forced.h"

namespace fovea::kernels {
namespace {

constexpr KernelTitle kReference = {"reference", "any problem on any device, in blocks of scores"};

const Kernel* forced(std::string_view name, const AttentionProblem& problem) {
  if (name == kReference.name) return nullptr;
  std::vector<std::string> known{std::string(kReference.name)};
  for (const Kernel& kernel : attention_kernels()) {
    known.emplace_back(kernel.name);
    if (kernel.name != name) continue;
    const std::vector<std::string> reasons = kernel.refuses(problem);
    if (reasons.empty()) return &kernel;
    throw Error(cat("FOVEA_KERNEL=", name, " refuses ", print(problem.spec), ": ", join(reasons, "; ")));
  }
  throw Error(
      cat("FOVEA_KERNEL: unknown kernel '", name, "'; expected one of ", join(known, ", "), did_you_mean(name, known)));
}

// The kernels among which a problem's sequences are divided: the kernels that do not refuse it, or the forced one.
std::vector<const Kernel*> candidates(const AttentionProblem& problem) {
  if (const std::string_view name = forced_kernel(); !name.empty()) {
    const Kernel* kernel = forced(name, problem);
    return kernel == nullptr ? std::vector<const Kernel*>{} : std::vector{kernel};
  }
  std::vector<const Kernel*> all;
  for (const Kernel& kernel : attention_kernels()) {
    if (!kernel.refuses(problem).empty()) continue;
    all.push_back(&kernel);
    if (kernel.suited.hold_for_all()) break;  // nothing is left for those behind
  }
  return all;
}

// Place in `among` of the sequence's kernel.
size_t place_of(const Sequence& sequence, std::span<const Kernel* const> among) {
  size_t at = 0;
  while (at + 1 < among.size() && !among[at]->suited.hold_for(sequence)) ++at;
  return at;
}

// The walk as far as sequences may get, one line per kernel.
std::string walk(const AttentionProblem& problem) {
  std::string lines;
  for (const Kernel& kernel : attention_kernels()) {
    const std::vector<std::string> reasons = kernel.refuses(problem);
    const LeastLengths& least = kernel.suited;
    if (reasons.empty() && least.hold_for_all()) break;
    lines +=
        cat(kernel.name, ": ",
            reasons.empty() ? cat("takes sequences of at least ", least.queries, " queries and ", least.keys, " keys\n")
                            : cat("refuses: ", join(reasons, "; "), '\n'));
  }
  return lines;
}

// A gradient that all sequences add to: each share writes its own, and these are summed.
struct SharedGradient {
  float* values;
  std::vector<double> sums;
  void add() {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(values[i]);
  }
  void write() const {
    for (size_t i = 0; i < sums.size(); ++i) values[i] = static_cast<float>(sums[i]);
  }
};

std::vector<SharedGradient> shared_gradients(const AttentionProblem& problem, const AttentionBackward& args) {
  std::vector<SharedGradient> all;
  const auto add = [&](float* values, int64_t each) {
    const auto count = static_cast<size_t>(problem.num_heads * each);
    if (values != nullptr) all.push_back({values, std::vector<double>(count)});
  };
  add(args.grad_alpha, 1);
  add(args.grad_terms.by_head, problem.offsets.by_head.count);
  add(args.grad_terms.rows, problem.offsets.product.count * problem.head_dim);
  return all;
}

}  // namespace

std::optional<float> sink_of(const Transform& transform, const float* alpha, int64_t head) {
  const auto* sink = std::get_if<Sink>(&transform);
  if (sink == nullptr) return std::nullopt;
  constexpr float kMost = std::numeric_limits<float>::max();
  return std::clamp(sink->learned ? alpha[head] : static_cast<float>(sink->score), -kMost, kMost);
}

std::string_view forced_kernel() {
  const char* name = std::getenv("FOVEA_KERNEL");
  return name ? name : "";
}

std::span<const Kernel> attention_kernels() { return cpu_kernels(); }

std::vector<KernelTitle> kernel_titles() {
  std::vector<KernelTitle> out;
  for (const Kernel& kernel : attention_kernels()) out.push_back({kernel.name, kernel.summary});
  out.push_back(kReference);
  return out;
}

KernelChoice::KernelChoice(const AttentionProblem& problem) {
  const std::vector<const Kernel*> among = candidates(problem);
  if (among.empty()) return;
  const std::vector<Sequence>& all = problem.sequences;
  const size_t first = all.empty() ? 0 : place_of(all.front(), among);
  const auto elsewhere = [&](const Sequence& s) { return place_of(s, among) != first; };
  if (std::none_of(all.begin(), all.end(), elsewhere)) {
    tasks_.push_back({among[first], &problem});
    return;
  }
  AttentionProblem empty = problem;
  empty.sequences.clear();
  parts_.assign(among.size(), empty);
  for (const Sequence& s : all) parts_[place_of(s, among)].sequences.push_back(s);
  for (size_t at = 0; at < among.size(); ++at) {
    if (!parts_[at].sequences.empty()) tasks_.push_back({among[at], &parts_[at]});
  }
}

void KernelChoice::forward(const AttentionForward& args, Executor& executor) const {
  for (const KernelTask& task : tasks_) task.kernel->forward(*task.problem, args, executor);
}

void KernelChoice::backward(const AttentionBackward& args, Executor& executor) const {
  std::vector<SharedGradient> shared;
  if (tasks_.size() > 1) shared = shared_gradients(*tasks_.front().problem, args);
  for (const KernelTask& task : tasks_) {
    task.kernel->backward(*task.problem, args, executor);
    for (SharedGradient& gradient : shared) gradient.add();
  }
  for (const SharedGradient& gradient : shared) gradient.write();
}

SavedPerRow saved_at_most(const AttentionProblem& problem) {
  SavedPerRow most;
  for (const Kernel& kernel : attention_kernels()) {
    if (!kernel.refuses(problem).empty()) continue;
    const SavedPerRow saved = kernel.saved(problem);
    most = {std::max(most.floats, saved.floats), std::max(most.ints, saved.ints)};
  }
  return most;
}

std::string explain(const AttentionProblem& problem) {
  const std::string_view name = forced_kernel();
  const KernelChoice choice(problem);
  std::vector<std::string> takers;
  for (const KernelTask& task : choice.tasks()) takers.emplace_back(task.kernel->name);
  return cat(name.empty() ? walk(problem) : cat("FOVEA_KERNEL=", name, ' '), "-> ",
             takers.empty() ? std::string(kReference.name) : join(takers, ", "));
}

}  // namespace fovea::kernels
