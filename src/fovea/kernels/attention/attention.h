#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/choices.h"
#include "fovea/base/executor.h"
#include "fovea/kernels/attention/dropout.h"
#include "fovea/spec/attention_spec.h"

// Attention on raw pointers, without torch. One call computes one mechanism for some heads of a batch of sequences.
// Shapes: T_q, T_k query and key tokens of all sequences together, H heads, D head_dim.
namespace fovea::kernels {

enum class DType : uint8_t { kFloat32, kBFloat16, kFloat64 };
inline constexpr std::string_view kDTypes = "float32|bfloat16|float64";  // in the order of the enumeration
static_assert(choice_at(kDTypes, static_cast<size_t>(DType::kFloat64)) == "float64");
constexpr std::string_view name_of(DType dtype) { return choice_at(kDTypes, static_cast<size_t>(dtype)); }

// One sequence: its queries are tokens [q_begin, q_begin + q_length) of q and out, its keys those of k and v.
// In self-attention query i stands at key position i + k_length - q_length, so that decoding with a cache is
// the end of the full pass. Packed batches, padded batches and caches are all lists of these. Sequences share no query;
// they may share keys, but not where gradients are asked for, which each writes for its own keys.
struct Sequence {
  int64_t q_begin = 0, q_length = 0, k_begin = 0, k_length = 0;
  bool operator==(const Sequence&) const = default;
};

// Offsets o of keys from queries in self-attention: the key's position less the query's, as row_of() counts them. A
// term has the offsets first ... first + count - 1, and any other counts as the nearest of these. count 0: no such
// term.
struct OffsetRange {
  int64_t first = 0, count = 0;
  int64_t index(int64_t offset) const { return std::clamp<int64_t>(offset - first, 0, count - 1); }
  bool operator==(const OffsetRange&) const = default;
};

// The terms by offset that a problem has; OffsetTerms holds their numbers. A score is scale q . k under its soft cap,
// to which they are added in this order, before any selection. None in cross-attention.
struct OffsetRanges {
  OffsetRange by_head = {};   // + by_head(h, o); minus infinity leaves a pair out
  OffsetRange by_query = {};  // + by_query(t, h, o)
  OffsetRange product = {};   // + scale queries(t, h) . rows(o, h)
  OffsetRange sums = {};      // no term: asks for a row's weights, after dropout, summed by offset
  bool any() const { return changes_scores() || sums.count > 0; }
  bool changes_scores() const { return by_head.count > 0 || by_query.count > 0 || product.count > 0; }
  bool operator==(const OffsetRanges&) const = default;
};

// Grouped queries: `share` heads that follow one another read the same head of k and v. A call on some heads of a layer
// may begin within such a group: `skipped` heads of the group of its first head belong to other calls.
struct KeySharing {
  int64_t share = 1, skipped = 0;
  // The head of k and v that `head` of the call reads.
  int64_t key_head(int64_t head) const { return (head + skipped) / share; }
  // The first head that reads `key_head`; of key_head + 1 the end of these heads, at most num_heads of the call.
  int64_t first_head(int64_t key_head) const { return std::max<int64_t>(key_head * share - skipped, 0); }
  bool any() const { return share > 1; }
  bool operator==(const KeySharing&) const = default;
};

// Whose heads have lists of their own: one list of a query for all heads, or one for each head of k, or of q.
enum class ListHeads : uint8_t { kShared, kOfKeys, kOfQueries };

// Pairs that come with the call: a list for each query. It attends to a key only where its list names the key and the
// spec's pairs have it too.
struct GivenPairs {
  int64_t block = 0;  // 0: no lists; 1: lists of keys; else of blocks of so many keys, the first from key 0 on
  int64_t count = 0;  // entries of a list
  ListHeads heads = ListHeads::kShared;
  bool by_head() const { return heads != ListHeads::kShared; }
  bool any() const { return block > 0; }
};

// The part of a call that is fixed before any number is known; kernels accept or refuse it, and plans are cached by it.
struct AttentionProblem {
  AttentionSpec spec;
  AttentionKind kind = AttentionKind::kSelf;
  DType dtype = DType::kFloat32;  // of q, k, v, out and their gradients; sums are float (double for kFloat64)
  int64_t num_heads = 1;          // in this call
  int64_t head_dim = 64;
  KeySharing keys = {};         // k, v and their gradients have num_key_heads() heads
  bool needs_backward = false;  // forward must fill `stats` and `kept`
  float dropout = 0;            // on the weights; kept weights are divided by 1 - dropout
  bool keys_listed = false;     // forward alone: AttentionForward::key_tokens says where keys lie
  OffsetRanges offsets = {};
  GivenPairs given = {};
  std::vector<Sequence> sequences;

  int64_t key_head(int64_t head) const { return keys.key_head(head); }
  int64_t num_key_heads() const { return num_heads == 0 ? 0 : key_head(num_heads - 1) + 1; }
  // How many lists a query has, and which of them a head reads.
  int64_t list_heads() const { return !given.by_head() ? 1 : of_keys() ? num_key_heads() : num_heads; }
  int64_t list_head(int64_t head) const { return !given.by_head() ? 0 : of_keys() ? key_head(head) : head; }
  // The end of the heads that read `key_head`.
  int64_t heads_end(int64_t key_head) const { return std::min(keys.first_head(key_head + 1), num_heads); }

 private:
  bool of_keys() const { return given.heads == ListHeads::kOfKeys; }
};

// A [tokens, H, D] array: element (t, h, i) is data[t * token_stride + h * head_stride + i].
template <class T>
struct Rows {
  T* data = nullptr;
  int64_t token_stride = 0, head_stride = 0;
};

struct SavedPerRow {
  int64_t floats = 0, ints = 0;
};

struct RandomStream {
  uint64_t seed = 0;                  // of the run; patterns draw from (seed, layer, head)
  uint64_t dropout_key = 0;           // of this call; element (head, query token, key position) draws from it
  int64_t layer = 0, first_head = 0;  // heads of this call are first_head ... first_head + num_heads - 1
  // Row::stream of the call's head `head`.
  uint64_t pattern(int64_t head) const { return pattern_stream(seed, layer, first_head + head); }
};

// The sink of a head: Sink's score, or the learned one of `alpha` [H]; nothing without a sink. It is finite or NaN, so
// that differences from finite numbers are as well.
std::optional<float> sink_of(const Transform& transform, const float* alpha, int64_t head);

// Query i (from 0) of a sequence as patterns see it.
inline Row row_of(const AttentionProblem& problem, const Sequence& sequence, int64_t i, uint64_t stream = 0) {
  const bool cross = problem.kind == AttentionKind::kCross;
  return {.query = cross ? i : i + sequence.k_length - sequence.q_length,
          .keys = sequence.k_length,
          .causal = problem.kind == AttentionKind::kCausal,
          .stream = stream};
}

// The numbers of OffsetRanges. The rows of an offset lie at its index within its range.
struct OffsetTerms {
  const float* by_head = nullptr;  // [H, count]
  Rows<const float> by_query;      // [T_q, H, count]
  Rows<const void> queries, rows;  // [T_q, H, D] and [count, H, D], in the problem's type; the heads may share rows
  Rows<float> sums;                // [T_q, H, count], written
};

// The inputs and outputs of backward for these terms; an output that is not wanted is null.
struct OffsetGradients {
  Rows<const float> sums;    // of OffsetTerms::sums, read; none counts as zeros
  float* by_head = nullptr;  // [H, count]
  Rows<float> by_query;      // [T_q, H, count]
  Rows<void> queries;        // [T_q, H, D]
  float* rows = nullptr;     // [count, H, D], apart for heads that share rows
};

// Lists of GivenPairs, [T_q, list_heads(), count], numbers side by side: of each query, ascending and each
// once, keys or blocks of its sequence that begin below Row::limit(), then -1 up to the list's end. Readable for 16
// numbers behind the last list.
using GivenLists = Rows<const int32_t>;

// A copy of the keys in 8 bits (cpu/key_screen.h), of the same tokens and heads as k. A selection by a sequence's only
// query reads it to leave out keys that cannot be selected; it changes what is read and no result.
struct KeyScreen {
  Rows<const uint8_t> rows;        // strides in bytes
  Rows<const float> steps;         // one number a row: the head's numbers lie side by side, token_stride 1
  const float* extents = nullptr;  // [num_key_heads(), kKeyScreenExtents]
  bool any() const { return rows.data != nullptr; }
};

struct AttentionForward {
  Rows<const void> q, k, v;
  Rows<void> out;
  // keys_listed: key j of a sequence is token key_tokens[k_begin + j] of k and v, so that sequences share what their
  // caches have in common; else it is token k_begin + j.
  const int64_t* key_tokens = nullptr;
  float scale = 1;  // on q . k, usually 1 / sqrt(head_dim)
  // [H], the argument that the transform learns: alpha of entmax(learned), the score of sink.
  const float* alpha = nullptr;
  // For backward; may be null when !needs_backward. Kernels that share a batch share these, so a sequence's part begins
  // at row q_begin of the buffer, whose rows are `saved`; there a kernel lays out what it needs.
  float* stats = nullptr;   // [T_q, H, saved.floats]
  int32_t* kept = nullptr;  // [T_q, H, saved.ints]
  SavedPerRow saved;        // at least Kernel::saved
  RandomStream random;
  OffsetTerms terms;
  GivenLists given;
  KeyScreen screen;
};

struct AttentionBackward {
  Rows<const void> q, k, v, out, grad_out;
  Rows<void> grad_q, grad_k, grad_v;  // written, not added to; rows that no pair touches are set to zero
  float scale = 1;
  const float* alpha = nullptr;  // [H]
  float* grad_alpha = nullptr;   // [H]
  const float* stats = nullptr;  // as forward left them
  const int32_t* kept = nullptr;
  SavedPerRow saved;
  RandomStream random;
  OffsetTerms terms;  // sums as forward left them
  OffsetGradients grad_terms;
  GivenLists given;
};

// The least lengths, in tokens, of sequences for which a kernel is faster than the kernels behind it in the list.
struct LeastLengths {
  int64_t queries = 0, keys = 0;
  bool hold_for(const Sequence& s) const { return s.q_length >= queries && s.k_length >= keys; }
  bool hold_for_all() const { return queries == 0 && keys == 0; }
};

// One implementation. KernelChoice walks the ordered list attention_kernels(); the reference in ops/ comes after all of
// these and refuses nothing. `refuses` and `saved` are functions of the problem without its sequences.
struct Kernel {
  std::string_view name;     // "cpu-topk", as FOVEA_KERNEL and benchmark rows know it
  std::string_view summary;  // one line
  std::vector<std::string> (*refuses)(const AttentionProblem&);  // empty: can run; else one sentence per reason
  SavedPerRow (*saved)(const AttentionProblem&);
  void (*forward)(const AttentionProblem&, const AttentionForward&, Executor&);
  void (*backward)(const AttentionProblem&, const AttentionBackward&, Executor&);
  LeastLengths suited = {};
};

// Fastest first.
std::span<const Kernel> attention_kernels();

// For lists of what there is: attention_kernels(), then the reference.
struct KernelTitle {
  std::string_view name, summary;
};
std::vector<KernelTitle> kernel_titles();

// Sequences of one problem and the kernel that takes them.
struct KernelTask {
  const Kernel* kernel = nullptr;
  const AttentionProblem* problem = nullptr;
};

// A problem's sequences among the kernels: each goes to the first that accepts the problem and that it suits, else to
// the last that accepts. A sequence's kernel does not depend on its neighbours, so neither do its results.
// FOVEA_KERNEL=name forces one for all: an unknown name or a refusal is an Error with the names or the reasons.
class KernelChoice {
 public:
  // Reads `problem` as long as it lives.
  explicit KernelChoice(const AttentionProblem& problem);
  explicit KernelChoice(AttentionProblem&&) = delete;
  KernelChoice(KernelChoice&&) = default;  // a copy's tasks would be those of the original
  // In the order of the list; none: the reference's.
  std::span<const KernelTask> tasks() const& { return tasks_; }
  std::span<const KernelTask> tasks() const&& = delete;
  void forward(const AttentionForward& args, Executor& executor) const;
  void backward(const AttentionBackward& args, Executor& executor) const;

 private:
  std::vector<AttentionProblem> parts_;  // where there is more than one task
  std::vector<KernelTask> tasks_;
};

// The greatest `saved` of the kernels that accept the problem: buffers must be sized before the lengths are known.
SavedPerRow saved_at_most(const AttentionProblem& problem);

// The walk, one line per kernel: "cpu-topk: refuses: head_dim 300 is above 256" ... "-> reference".
std::string explain(const AttentionProblem& problem);

}  // namespace fovea::kernels
