#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "fovea/kernels/attention/attention.h"
#include "fovea/stable/arguments.h"

// A call as Python describes it: python/fovea/_stable/_problem.py writes what is read here.
namespace fovea::stable {

// The places of a call's numbers, the argument `numbers` of the operators.
enum Number : uint8_t {
  kType,  // a kernels::DType
  kHeads,
  kHeadDim,
  kShare,
  kSkipped,
  kTraining,
  kByHeadFirst,
  kByHeadCount,
  kByQueryFirst,
  kByQueryCount,
  kRowsFirst,
  kRowsCount,
  kSumsFirst,
  kSumsCount,
  kBlock,
  kListCount,
  kByKeyHead,
  kPacked,
  kBatch,
  kQueries,
  kKeys,
  kNumbers  // how many there are
};

// The places of a call's random streams, the argument `stream`.
enum Stream : uint8_t { kSeed, kLayer, kFirstHead, kDropoutSeed, kStreams };

// The places of the tensors that lay out a call, the argument `layout`.
enum Layout : uint8_t { kQueryOffsets, kKeyOffsets, kKeyBegins, kKeyTokens, kQueryLengths, kKeyLengths, kLayouts };

struct Described {
  std::string_view spec, kind;
  double dropout = 0;
  const std::vector<int64_t>& numbers;
};

// Without sequences. Throws an Error if the spec does not parse or does not fit the kind.
kernels::AttentionProblem problem_of(const Described& call);

// Reads a layout; the views are valid as long as its tensors.
struct LayoutArguments {
  kernels::CallSizes sizes;
  kernels::SequenceVectors vectors;
};
LayoutArguments layout_of(const std::vector<int64_t>& numbers, const std::vector<std::optional<Tensor>>& layout);

// Zeroes a result [T, H, D] or [B, H, N, D] unless the sequences, whose rows kernels write, hold all of its tokens: the
// rest is padding.
void clear_padding(const Tensor& x, const kernels::AttentionProblem& problem, int64_t kernels::Sequence::*length);

kernels::RandomStream stream_of(const std::vector<int64_t>& stream);

// Throws an Error unless the list has `count` numbers.
void check_count(const std::vector<int64_t>& list, size_t count, std::string_view name);

}  // namespace fovea::stable
