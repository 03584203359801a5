#pragma once

// The schemas of the operators that Python defines. Stored graphs name them, so an argument is added at the end.
namespace fovea::schemas {

inline constexpr const char* kAttention =
    "attention(Tensor q, Tensor k, Tensor v, str spec='full', *, str kind='self', Tensor? q_offsets=None, "
    "Tensor? k_offsets=None, Tensor? k_begins=None, Tensor? k_tokens=None, Tensor? q_lengths=None, "
    "Tensor? k_lengths=None, Tensor? alpha=None, Tensor? gain=None, Tensor? gate=None, Tensor? bias=None, "
    "float? scale=None, float dropout=0., int seed=0, int layer=0, SymInt dropout_seed=0, Tensor? drawn_seed=None, "
    "Tensor? offset_bias=None, int offset_first=0, Tensor? offset_queries=None, Tensor? offset_rows=None, "
    "int offset_rows_first=0, Tensor? offset_values=None, int offset_values_first=0, bool enable_gqa=False, "
    "Tensor? indices=None, Tensor? block_indices=None, int block_size=128, Tensor? sinks=None) -> Tensor";
inline constexpr const char* kAttentionWeights =
    "attention_weights(Tensor q, Tensor k, str spec='full', *, str kind='self', Tensor? q_offsets=None, "
    "Tensor? k_offsets=None, Tensor? k_begins=None, Tensor? k_tokens=None, Tensor? q_lengths=None, "
    "Tensor? k_lengths=None, Tensor? alpha=None, float? scale=None, int seed=0, int layer=0, "
    "Tensor? offset_bias=None, int offset_first=0, Tensor? offset_queries=None, Tensor? offset_rows=None, "
    "int offset_rows_first=0, bool enable_gqa=False, Tensor? indices=None, Tensor? block_indices=None, "
    "int block_size=128, Tensor? sinks=None) -> Tensor";

// Head groups that follow one another in a layer, whose text is `spec`: see call.h for the lists.
inline constexpr const char* kAttentionForward =
    "attention_forward(Tensor q, Tensor k, Tensor v, Tensor? alpha, Tensor?[] terms, int[] offsets, Tensor?[] layout, "
    "str spec, str kind, float scale, float dropout, int[] stream, SymInt dropout_seed, bool needs_backward) "
    "-> (Tensor out, Tensor stats, Tensor kept, Tensor sums)";
inline constexpr const char* kAttentionBackward =
    "attention_backward(Tensor grad_out, Tensor? grad_sums, Tensor q, Tensor k, Tensor v, Tensor out, Tensor stats, "
    "Tensor kept, Tensor sums, Tensor? alpha, Tensor?[] terms, int[] offsets, int wanted, Tensor?[] layout, "
    "str spec, str kind, float scale, float dropout, int[] stream, SymInt dropout_seed) "
    "-> (Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_alpha, Tensor[] grad_terms)";

inline constexpr const char* kHeadNorm =
    "head_norm(Tensor z, Tensor gain, Tensor? gate, Tensor? bias, bool centred, float eps) "
    "-> (Tensor y, Tensor centre, Tensor rstd)";
inline constexpr const char* kHeadNormBackward =
    "head_norm_backward(Tensor grad_y, Tensor z, Tensor gain, Tensor? gate, Tensor? bias, Tensor centre, Tensor rstd, "
    "bool centred, float eps) -> (Tensor grad_z, Tensor grad_gain, Tensor grad_gate, Tensor grad_bias)";

inline constexpr const char* kIndexTopk =
    "index_topk(Tensor q, Tensor k, Tensor weights, int k_best, bool causal=True, *, Tensor? q_offsets=None, "
    "Tensor? k_offsets=None) -> Tensor";
inline constexpr const char* kIndexTarget =
    "index_target(Tensor q, Tensor k, Tensor indices, float? scale=None) -> Tensor";
inline constexpr const char* kBlockTopk =
    "block_topk(Tensor q, Tensor k, int block_size, int k_best, *, bool causal=True, bool bounds=False, "
    "Tensor? q_offsets=None, Tensor? k_offsets=None, Tensor? lengths=None, Tensor? k_begins=None, Tensor? "
    "k_tokens=None, "
    "Tensor? k_lengths=None) -> Tensor";
// Called by fovea::index_loss_sums, which has the derivative.
inline constexpr const char* kIndexLossKernel =
    "index_loss_kernel(Tensor q, Tensor k, Tensor weights, Tensor indices, Tensor target, bool gradients) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor)";

inline constexpr const char* kParse = "parse(str spec, int? num_heads=None) -> str";
inline constexpr const char* kParameters = "parameters(str spec) -> str[]";
inline constexpr const char* kProperties = "properties(str spec) -> str[]";
inline constexpr const char* kAlphaRange = "alpha_range() -> (float, float)";
inline constexpr const char* kSpecNames = "spec_names() -> str[]";

}  // namespace fovea::schemas
