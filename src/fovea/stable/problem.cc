#include "fovea/stable/problem.h"

#include "fovea/base/strings.h"
#include "fovea/spec/attention_cache.h"

namespace fovea::stable {

void check_count(const std::vector<int64_t>& list, size_t count, std::string_view name) {
  if (list.size() == count) return;
  throw Error(cat("attention: the list ", name, " has ", list.size(), " numbers; expected ", count,
                  "; the package's Python and its library are of different versions"));
}

kernels::AttentionProblem problem_of(const Described& call) {
  const std::vector<int64_t>& n = call.numbers;
  check_count(n, kNumbers, "numbers");
  kernels::AttentionProblem problem;
  problem.spec = parse_attention_once(call.spec);
  problem.kind = parse_kind(call.kind);
  problem.dtype = static_cast<kernels::DType>(n[kType]);
  problem.num_heads = n[kHeads], problem.head_dim = n[kHeadDim];
  problem.keys = {n[kShare], n[kSkipped]};
  problem.needs_backward = n[kTraining] != 0;
  problem.dropout = static_cast<float>(call.dropout);
  problem.offsets = {{n[kByHeadFirst], n[kByHeadCount]},
                     {n[kByQueryFirst], n[kByQueryCount]},
                     {n[kRowsFirst], n[kRowsCount]},
                     {n[kSumsFirst], n[kSumsCount]}};
  problem.given = {.block = n[kBlock], .count = n[kListCount], .by_key_head = n[kByKeyHead] != 0};
  validate(problem.spec, problem.kind);
  if (problem.offsets.any() && problem.kind == AttentionKind::kCross) {
    throw Error("attention: terms by offset are for self-attention; cross-attention has no offsets, leave them out");
  }
  return problem;
}

LayoutArguments layout_of(const std::vector<int64_t>& numbers, const std::vector<std::optional<Tensor>>& layout) {
  check_count(numbers, kNumbers, "numbers");
  const auto view = [&](Layout place) {
    return place < layout.size() && layout[place] ? std::optional(view_of(*layout[place])) : std::nullopt;
  };
  return {{numbers[kPacked] != 0, numbers[kBatch], numbers[kQueries], numbers[kKeys]},
          {view(kQueryOffsets), view(kKeyOffsets), view(kKeyBegins), view(kKeyTokens), view(kQueryLengths),
           view(kKeyLengths)}};
}

void clear_padding(const Tensor& x, const kernels::AttentionProblem& problem, int64_t kernels::Sequence::*length) {
  const int64_t tokens = x.dim() == 4 ? x.size(0) * x.size(2) : x.size(0);
  int64_t covered = 0;
  for (const kernels::Sequence& s : problem.sequences) covered += s.*length;
  if (covered != tokens) TORCH_ERROR_CODE_CHECK(aoti_torch_zero_(x.get()));
}

kernels::RandomStream stream_of(const std::vector<int64_t>& stream) {
  check_count(stream, kStreams, "stream");
  return {static_cast<uint64_t>(stream[kSeed]), static_cast<uint64_t>(stream[kDropoutSeed]), stream[kLayer],
          stream[kFirstHead]};
}

}  // namespace fovea::stable
