#include "fovea/stable/problem.h"

#include <mutex>
#include <string>
#include <unordered_map>

#include "fovea/base/strings.h"

namespace fovea::stable {
namespace {

constexpr size_t kMostSpecs = 1024;  // that are kept parsed: a service may be sent any

// Texts come again with every call of every layer.
AttentionSpec parsed(std::string_view text) {
  static std::mutex mutex;
  static std::unordered_map<std::string, AttentionSpec> cache;
  const std::scoped_lock lock(mutex);
  const auto found = cache.find(std::string(text));
  if (found != cache.end()) return found->second;
  if (cache.size() >= kMostSpecs) cache.clear();
  return cache.emplace(text, parse_attention(text)).first->second;
}

}  // namespace

void check_count(const std::vector<int64_t>& list, size_t count, std::string_view name) {
  if (list.size() == count) return;
  throw Error(cat("attention: the list ", name, " has ", list.size(), " numbers; expected ", count,
                  "; the package's Python and its library are of different versions"));
}

kernels::AttentionProblem problem_of(const Described& call) {
  const std::vector<int64_t>& n = call.numbers;
  check_count(n, kNumbers, "numbers");
  kernels::AttentionProblem problem;
  problem.spec = parsed(call.spec);
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

kernels::RandomStream stream_of(const std::vector<int64_t>& stream) {
  check_count(stream, kStreams, "stream");
  return {static_cast<uint64_t>(stream[kSeed]), static_cast<uint64_t>(stream[kDropoutSeed]), stream[kLayer],
          stream[kFirstHead]};
}

}  // namespace fovea::stable
