#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/kernels/call/call.h"
#include "fovea/kernels/call/groups.h"
#include "fovea/spec/resolved_layer.h"
#include "fovea/stable/arguments.h"

// A call of head groups with the arguments of fovea::attention_forward, for the kernels.
namespace fovea::stable {

using OptionalTensors = std::vector<std::optional<Tensor>>;

// The places of the operators' lists. A call may leave out the end of a list.
enum Term : uint8_t { kByHead, kByQuery, kTermQueries, kTermRows, kTerms };
enum Offset : uint8_t { kByHeadFirst, kByQueryFirst, kRowsFirst, kValuesFirst, kValueOffsets, kOffsets };
enum Layout : uint8_t {
  kQueryOffsets,
  kKeyOffsets,
  kKeyBegins,
  kKeyTokens,
  kQueryLengths,
  kKeyLengths,
  kDrawnSeed,
  kLists,
  kLayouts
};
enum Stream : uint8_t { kSeed, kLayer, kFirstHead, kHeadsPerKey, kBlock, kStreams };

kernels::SequenceVectors vectors_of(const OptionalTensors& layout);
// Reads the numbers packed, batch, queries and keys.
kernels::CallSizes sizes_of(const std::vector<int64_t>& sizes);
// Reads the numbers seed, layer, first head and seed of dropout.
kernels::RandomStream stream_of(const std::vector<int64_t>& stream);

// Takes the arguments that forward and backward share.
struct CallArguments {
  explicit CallArguments(Arguments& in);
  CallArguments(const CallArguments&) = delete;
  CallArguments& operator=(const CallArguments&) = delete;

  kernels::CoreCall core() const;  // views of the tensors below
  kernels::RandomStream random() const;

  Tensor q, k, v;
  std::optional<Tensor> alpha;  // float32
  OptionalTensors terms;
  std::vector<int64_t> offsets;
  OptionalTensors layout;
  std::string spec, kind;  // the spec of all heads
  double scale, dropout;
  std::vector<int64_t> stream;
  int64_t dropout_seed;
};

// The call, checked, and its kernels.
class PreparedCall {
 public:
  PreparedCall(const CallArguments& arguments, kernels::Phase phase);
  PreparedCall(const PreparedCall&) = delete;
  PreparedCall& operator=(const PreparedCall&) = delete;

  const kernels::AttentionProblem& problem() const { return problem_; }  // of all heads
  // Null if the reference computes the call. Every kernel refuses float64, aloud where FOVEA_KERNEL names it.
  const kernels::GroupKernels* kernels() const { return kernels_ ? &*kernels_ : nullptr; }
  int64_t tokens() const { return tokens_; }  // of q, with padding
  kernels::SavedPerRow saved() const;         // numbers that forward leaves for a token, of all heads
  const int64_t* key_tokens() const { return key_tokens_.data(); }

 private:
  AttentionLayerPointer layer_;
  kernels::AttentionProblem problem_;
  int64_t tokens_ = 0;
  std::span<const int64_t> key_tokens_;
  kernels::GroupedCall groups_;
  std::optional<kernels::GroupKernels> kernels_;
};

// The numbers that forward leaves for a token: those of the head groups one after the other.
kernels::SavedPerRow saved_per_token(const kernels::GroupedCall& groups);

}  // namespace fovea::stable
