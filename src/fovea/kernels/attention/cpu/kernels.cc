#include "fovea/kernels/attention/cpu/kernels.h"

#include "fovea/base/strings.h"
#include "fovea/kernels/attention/cpu/blocks.h"
#include "fovea/kernels/attention/cpu/dense.h"
#include "fovea/kernels/attention/cpu/rows.h"
#include "fovea/kernels/attention/cpu/screen_attention.h"

namespace fovea::kernels {

std::vector<std::string> refusals_of(const AttentionProblem& problem, int64_t most_head_dim) {
  std::vector<std::string> reasons;
  if (problem.dtype == DType::kFloat64) reasons.emplace_back("float64 is left to the reference");
  if (problem.head_dim > most_head_dim) {
    reasons.push_back(cat("head_dim ", problem.head_dim, " is above ", most_head_dim));
  }
  return reasons;
}

void refuse_named_keys(const AttentionProblem& problem, std::vector<std::string>& reasons) {
  if (problem.keys_listed) reasons.emplace_back("keys lie where a list says");
  if (problem.given.any()) reasons.emplace_back("the pairs come with the call");
}

void refuse_selection(const AttentionSpec& spec, std::vector<std::string>& reasons) {
  if (spec.selects()) reasons.push_back(std::string("the spec has ").append(name_of(spec.selection)));
}

std::span<const Kernel> cpu_kernels() {
  static const std::vector<Kernel> kAll = {kTopkKernel, kEntmaxKernel, kBlocksKernel, kDenseKernel, kRowsKernel};
  return kAll;
}

}  // namespace fovea::kernels
