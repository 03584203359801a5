#include "fovea/kernels/attention/cpu/screen_attention.h"

#include <string>

#include "fovea/base/strings.h"
#include "fovea/kernels/attention/cpu/kernels.h"
#include "fovea/kernels/attention/cpu/screen_select.h"

namespace fovea::kernels {
namespace {

std::vector<std::string> common_refusals(const AttentionProblem& problem) {
  std::vector<std::string> reasons = refusals_of(problem, kMaxScreenHeadDim);
  if (problem.offsets.product.count > 0) reasons.emplace_back("a product by distance in the scores");
  refuse_named_keys(problem, reasons);
  if (problem.spec.cap) reasons.emplace_back("the spec has softcap");
  return reasons;
}

// The greatest k of topk: lists of k entries are kept for every row and head.
constexpr int64_t kMaxListed = 4096;

// With fewer queries (a decoder's step) packing the keys costs more than scoring them all exactly.
constexpr LeastLengths kSuited = {.queries = 32, .keys = kManyKeys};

std::vector<std::string> topk_refuses(const AttentionProblem& problem) {
  std::vector<std::string> reasons = common_refusals(problem);
  const TopK* top = problem.spec.top_k();
  if (top == nullptr) {
    reasons.emplace_back("the spec has no topk");
  } else if (top->k > kMaxListed) {
    reasons.push_back(cat("topk(", top->k, "): lists of more than ", kMaxListed, " keys a row"));
  }
  return reasons;
}

std::vector<std::string> entmax_refuses(const AttentionProblem& problem) {
  std::vector<std::string> reasons = common_refusals(problem);
  refuse_selection(problem.spec, reasons);
  const auto* entmax = std::get_if<Entmax>(&problem.spec.transform);
  if (!std::holds_alternative<Sparsemax>(problem.spec.transform) && entmax == nullptr) {
    reasons.emplace_back("the transform is neither sparsemax nor entmax");
  } else if (entmax != nullptr && !entmax->learned && entmax->alpha <= 1) {
    reasons.emplace_back("entmax(1) is softmax, whose weights are never zero");
  }
  return reasons;
}

SavedPerRow saved(const AttentionProblem& problem) { return list_layout(problem).per_row(); }

// The number of keys that `keep` may add to a row, estimated from its spans in the middle of a long sequence.
int64_t kept_beside(const Pairs& keep) {
  constexpr int64_t kMost = 1024;
  const Row row = {.query = 8192, .keys = 16384, .causal = false, .stream = 0};
  int64_t keys = 0;
  for (const Span& span : spans(keep, row)) keys += span.end - span.begin;
  return std::min(keys, kMost);
}

}  // namespace

SavedPerRow ListLayout::per_row() const { return {.floats = kRowStats + capacity, .ints = 2 + capacity}; }

ListLayout list_layout(const AttentionProblem& problem) {
  const AttentionSpec& spec = problem.spec;
  if (const TopK* top = spec.top_k()) {
    // The 4 more entries leave some room for ties.
    return {top->k + (spec.keep ? kept_beside(*spec.keep) : 0) + 4};
  }
  const auto* entmax = std::get_if<Entmax>(&spec.transform);
  const bool projects = entmax == nullptr || (!entmax->learned && entmax->alpha >= 2);
  // At initialisation, scores deviate by 0.4 to 0.5; entmax(1.5) then gives weight to 70 to 200 of thousands of keys,
  // and flatter heads give weight to more. Room that is not used is not touched.
  return {projects ? 64 : 512};
}

const Kernel kTopkKernel = {.name = "cpu-topk",
                            .summary = "top-k selection by screening, lists of the selected pairs",
                            .refuses = topk_refuses,
                            .saved = saved,
                            .forward = screened_forward,
                            .backward = screened_backward,
                            .suited = kSuited};

const Kernel kEntmaxKernel = {.name = "cpu-entmax",
                              .summary = "sparsemax and entmax by screening, lists of the support",
                              .refuses = entmax_refuses,
                              .saved = saved,
                              .forward = screened_forward,
                              .backward = screened_backward,
                              .suited = kSuited};

}  // namespace fovea::kernels
