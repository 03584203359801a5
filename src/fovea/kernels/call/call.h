#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/call/checks.h"
#include "fovea/kernels/call/layout.h"
#include "fovea/spec/resolved_layer.h"

// A call of attention as tensors, and the problem that it is to the kernels.
namespace fovea::kernels {

enum class Phase : uint8_t { kInference, kTraining };

// A call of head groups that follow one another in a layer.
struct CoreCall {
  QkvViews x;
  std::optional<TensorView> alpha = {};  // [H], what transforms learn, if some head's does
  TermViews terms = {};
  OffsetRanges offsets = {};  // where the terms' offsets begin, and the range of sums
  ListViews pairs = {};
  SequenceVectors vectors = {};
  AttentionKind kind = AttentionKind::kSelf;
  KeySharing keys = {};
  double dropout = 0;
};

CallSizes sizes_of(const TensorView& q, const TensorView& k);
int64_t tokens_of(const TensorView& x);  // of all sequences, with padding

// The problem of all heads of the groups. Its spec is that of a single group; of more it has none. Throws an Error if
// the tensors do not fit each other.
AttentionProblem problem_of(const CoreCall& call, std::span<const AttentionLayer::Group> groups, Phase phase);

}  // namespace fovea::kernels
