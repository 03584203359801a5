#include <algorithm>
#include <cstdlib>

#include "fovea/base/strings.h"
#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/cpu/kernels.h"

namespace fovea::kernels {
namespace {

constexpr std::string_view kReference = "reference";

std::string_view forced_name() {
  const char* name = std::getenv("FOVEA_KERNEL");
  return name ? name : "";
}

const Kernel* forced(std::string_view name, const AttentionProblem& problem) {
  if (name == kReference) return nullptr;
  std::vector<std::string> known{std::string(kReference)};
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

}  // namespace

std::span<const Kernel> attention_kernels() { return cpu_kernels(); }

const Kernel* choose(const AttentionProblem& problem) {
  if (const std::string_view name = forced_name(); !name.empty()) return forced(name, problem);
  for (const Kernel& kernel : attention_kernels()) {
    if (kernel.refuses(problem).empty()) return &kernel;
  }
  return nullptr;
}

SavedPerRow saved_at_most(const AttentionProblem& problem) {
  AttentionProblem any = problem;
  any.sequences.clear();
  SavedPerRow most;
  for (const Kernel& kernel : attention_kernels()) {
    if (!kernel.refuses(any).empty()) continue;
    const SavedPerRow saved = kernel.saved(any);
    most = {std::max(most.floats, saved.floats), std::max(most.ints, saved.ints)};
  }
  return most;
}

std::string explain(const AttentionProblem& problem) {
  if (const std::string_view name = forced_name(); !name.empty()) {
    const Kernel* kernel = forced(name, problem);
    return cat("FOVEA_KERNEL=", name, " -> ", kernel ? kernel->name : kReference);
  }
  std::string walk;
  for (const Kernel& kernel : attention_kernels()) {
    const std::vector<std::string> reasons = kernel.refuses(problem);
    if (reasons.empty()) return cat(walk, "-> ", kernel.name);
    walk += cat(kernel.name, ": refuses: ", join(reasons, "; "), '\n');
  }
  return cat(walk, "-> ", kReference);
}

}  // namespace fovea::kernels
