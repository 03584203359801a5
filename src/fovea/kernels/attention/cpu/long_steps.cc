#include "fovea/kernels/attention/cpu/long_steps.h"

#include <variant>

#include "fovea/kernels/attention/cpu/narrow_rows.h"

namespace fovea::kernels {

bool is_plain_forward(const AttentionProblem& problem) {
  return !problem.needs_backward && problem.dropout == 0 && problem.spec.pairs().is_full() && !problem.given.any() &&
         !problem.spec.selects() && std::holds_alternative<Softmax>(problem.spec.transform);
}

bool is_long_step(const AttentionProblem& problem, const Sequence& sequence) {
  const bool has_whole_groups = problem.keys.skipped == 0 && problem.num_heads % problem.keys.share == 0;
  return sequence.q_length == 1 && sequence.k_length > kFewKeys && problem.head_dim <= kMaxNarrowHeadDim &&
         problem.dtype != DType::kFloat64 && has_whole_groups && !problem.offsets.any() && !problem.spec.cap &&
         is_plain_forward(problem);
}

std::vector<int64_t> attend_long_steps(const AttentionProblem& problem, const AttentionForward& in,
                                       std::span<const int64_t> sequences, Executor& executor) {
  std::vector<int64_t> begins, lengths, queries;
  for (const int64_t s : sequences) {
    const Sequence& sequence = problem.sequences[static_cast<size_t>(s)];
    begins.push_back(sequence.k_begin), lengths.push_back(sequence.k_length), queries.push_back(sequence.q_begin);
  }
  const NarrowType type = problem.dtype == DType::kFloat32 ? NarrowType::kFloat32 : NarrowType::kBFloat16;
  std::vector<int64_t> found = attend_narrow_rows({.q = in.q,
                                                   .out = in.out,
                                                   .dtype = problem.dtype,
                                                   .keys = {type, in.k, {}},
                                                   .values = {type, in.v, {}},
                                                   .begins = begins.data(),
                                                   .lengths = lengths.data(),
                                                   .queries = queries.data(),
                                                   .places = in.key_tokens,
                                                   .count = std::ssize(sequences),
                                                   .num_heads = problem.num_heads,
                                                   .head_dim = problem.head_dim,
                                                   .share = problem.keys.share,
                                                   .scale = in.scale},
                                                  executor);
  for (int64_t& row : found) row = sequences[static_cast<size_t>(row)];
  return found;
}

}  // namespace fovea::kernels
