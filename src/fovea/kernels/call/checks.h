#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "fovea/kernels/call/layout.h"
#include "fovea/kernels/call/tensor_view.h"
#include "fovea/spec/resolved_layer.h"

// The conditions of a call of attention, for every skin of the kernels: each text stands here alone. A function throws
// an Error if its condition does not hold. Its line says what is wrong, what was got and what was expected.
namespace fovea::kernels {

// The range of a learned alpha. Closer to 1, the distance alpha - 1 has three digits or less in float32.
inline constexpr double kLeastAlpha = 1.0001, kGreatestAlpha = 64;
inline constexpr double kNormEps = 1e-8;     // inside the root of the norm over heads
inline constexpr int64_t kUsualBlock = 128;  // keys of a block in lists of blocks

struct QkvViews {
  TensorView q, k, v;
};
// Terms by offset; a call lacks the absent ones.
struct TermViews {
  std::optional<TensorView> by_head = {}, by_query = {}, queries = {}, rows = {};
};
// The tensors of a layer's call beside q, k, v, terms and lists.
struct LayerViews {
  std::optional<TensorView> alpha = {}, sinks = {}, gain = {}, gate = {}, bias = {};
  SequenceVectors vectors = {};
  std::optional<TensorView> drawn_seed = {};
  // Returns the tensor that the transform reads, if it learns anything.
  const std::optional<TensorView>& learned(const Transform& transform) const {
    return learns_sink(transform) ? sinks : alpha;
  }
};
// Lists of pairs; of keys where `block` is 1.
struct ListViews {
  std::optional<TensorView> lists;
  int64_t block = 0;
  bool by_head = false;  // of k or q; else all heads share them
};

[[noreturn]] void refuse_layout(std::string_view name, std::string_view layout);
// q, k and v are dense, and q has three or four dimensions.
void check_layout(const QkvViews& x);

// Returns how many heads of q share one head of k and v if fewer are allowed. The heads of k divide those of q.
KeySharing key_sharing(const TensorView& q, const TensorView& k);

// kAny: v may have another last size than k.
enum class ValueWidth : uint8_t { kOfKeys, kAny };
// q, k and v: [T, H, D] or [B, H, N, D], of one floating type, on one device; k and v have the heads that q's read.
void check_inputs(const QkvViews& x, const KeySharing& keys, ValueWidth width = ValueWidth::kOfKeys);

void check_scale(std::optional<double> scale, std::string_view caller);  // the caller's name begins the line
void check_rate(double rate, std::string_view what);                     // of dropout

// `learned` is [num_heads], what the mechanism's transform learns.
void check_learned_shape(const std::optional<TensorView>& learned, const AttentionSpec& spec, int64_t num_heads);
// It is of a floating type; alphas of float32 on the CPU are in the range above.
void check_learned(const TensorView& learned, const Transform& transform, int64_t first_head);

// The shapes, types and devices of the terms of a call: tables are float, double for double, and products of q's type.
void check_terms(const TensorView& q, const TermViews& terms);
// Sums of weights by offset, or their gradient: as terms by query of `count` offsets.
void check_sums(const TensorView& q, const TensorView& sums, int64_t count);
// Terms as a layer's caller gives them, of any floating type. v is value_width wide.
void check_layer_terms(const TensorView& q, const TermViews& terms, const std::optional<TensorView>& values,
                       int64_t value_width);

// Returns the sizes of the lists, for problems; does not read values.
GivenPairs checked_lists(const QkvViews& x, const ListViews& pairs);

// The lists that a layer's caller gives by their names.
struct NamedLists {
  std::optional<TensorView> indices = {}, block_indices = {};
  int64_t block_size = kUsualBlock;
};
ListViews one_of(const NamedLists& named);

enum class Graph : uint8_t { kNone, kRecorded };  // whether gradients of the inputs are recorded
// The tensors lie where they are read, and the vectors of sequences go together.
void check_options(const QkvViews& x, const LayerViews& options, Graph graph);
// The layer reads each tensor that is given, else it would never be learned.
void check_read(const AttentionLayer& layer, const LayerViews& options);
// Kernels give first derivatives in reverse mode alone: others would come out as zeros, or without a part of theirs.
[[noreturn]] void refuse_tangents(std::string_view caller);
[[noreturn]] void refuse_second_derivatives(std::string_view caller);
// Ranges of keys may overlap, so they have no gradients.
void check_differentiable(const SequenceVectors& vectors);
// The keys of each sequence are the tokens of its queries, as random clusters that both share need it.
void check_same_tokens(std::span<const Sequence> sequences);
// Backward runs under the FOVEA_KERNEL of forward, because kernels do not read what others left.
void check_kernel(std::string_view in_forward);
// Parameters of the norm over `width` numbers of all heads.
void check_norm(const Norm& norm, const LayerViews& options, int64_t width);
// Routed heads and those of blocktopk choose their keys themselves, routed ones among those of whole sequences.
void check_choice(const AttentionLayer::Group& group, const ListViews& lists, const SequenceVectors& vectors,
                  AttentionKind kind);

// Returns how many MiB the reference may use for one block of scores: FOVEA_REFERENCE_MIB, 256 without it. Throws an
// Error if the variable is not a number above zero.
double reference_mib();
// A row of one query that the reference cannot hold.
struct ReferenceRow {
  int64_t keys = 0, heads = 1;  // that are computed together
  double needed = 0;            // MiB
};
[[noreturn]] void refuse_row(const ReferenceRow& row, double allowed);

}  // namespace fovea::kernels
