#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

// Operators of a training step other than attention. Each has a backward of its own, and is differentiable in every
// tensor.
// T tokens, M model width, V vocabulary, N output width. Dropout masks come from a counter (seed), never stored.
// Where a kernel computes (the CPU, float32 or bfloat16) linear, the norms, gated, activated, embed and cross_entropy
// have no second derivatives: backward with create_graph throws an Error.
namespace fovea::ops {

// gelu: x Phi(x), exact; gelu-tanh: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, its approximation (Hendrycks and
// Gimpel 2016); silu: x sigmoid(x).
enum class Activation : uint8_t { kNone, kRelu, kGelu, kGeluTanh, kSilu };

// x [T, M], weight [N, M], bias [N] -> activation(x weight^T + bias) [T, N], by the fastest product of the machine.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                  Activation activation = Activation::kNone);

struct DropoutOptions {
  double rate = 0;   // in [0, 1), else an Error; 0: nothing is dropped
  int64_t seed = 0;  // of this call; element i draws from (seed, i)
};

at::Tensor dropout(const at::Tensor& x, const DropoutOptions& options);

// LayerNorm(x) gain + bias over the last dimension, [T, M].
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias, double eps = 1e-5);

// One pass: sum = residual + dropout(x); returns (sum, LayerNorm(sum)). Post-norm layers use the second, pre-norm
// layers use both.
std::tuple<at::Tensor, at::Tensor> add_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& gain,
                                            const at::Tensor& bias, const DropoutOptions& options, double eps = 1e-5);

// x / sqrt(mean(x^2) + eps) gain over the last dimension, [T, M] (Zhang and Sennrich 2019).
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps = 1e-6);

// add_norm() with RMS norm: returns (sum, RMSNorm(sum)).
std::tuple<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& gain,
                                                const DropoutOptions& options, double eps = 1e-6);

// Gated linear unit of a feed-forward layer (Shazeer 2020), in one pass: x [T, 2 F] ->
// dropout(activation(x[:, :F]) x[:, F:]) [T, F]. The activation is kGelu or kGeluTanh (GEGLU), or kSilu (SwiGLU), else
// an Error.
at::Tensor gated(const at::Tensor& x, Activation activation, const DropoutOptions& options = {});

// dropout(activation(x)), elementwise; with both forms of gelu and with silu of x [T, F] in one pass.
at::Tensor activated(const at::Tensor& x, Activation activation, const DropoutOptions& options = {});

// scale * weight[ids] + positions[position], then dropout. ids, position [T] int64; positions [P, M] or undefined. The
// id -1 stands for a row of zeros.
at::Tensor embed(const at::Tensor& ids, const at::Tensor& position, const at::Tensor& weight,
                 const std::optional<at::Tensor>& positions, double scale, const DropoutOptions& options);

// The last layer of a decoder: logits x = hidden weight^T + bias, or with a softcap c > 0: c tanh(x / c).
struct OutputLayer {
  at::Tensor weight;                    // [V, M]
  std::optional<at::Tensor> bias = {};  // [V]
  double softcap = 0;
};

struct CrossEntropy {
  at::Tensor loss;  // [] float32: sum over tokens of the label-smoothed loss, the one to differentiate
  at::Tensor nll;   // [] float32: sum of -log p(target), no gradient
};
// hidden [T, M], targets [T] int64, no padding. The logits are never held whole.
// Smoothing eps: (1 - eps) nll + eps mean over the vocabulary of -log p (Szegedy et al. 2016).
CrossEntropy cross_entropy(const at::Tensor& hidden, const OutputLayer& output, const at::Tensor& targets,
                           double label_smoothing);

struct TokenScores {
  at::Tensor nll;   // [T] float32: -log p(target)
  at::Tensor best;  // [T] bool: no word of the vocabulary has a greater logit than the target; false where nll is NaN
};
// For scoring and validation, without gradients: the targets' losses, and whether each target is the model's first
// choice (ties count), whose mean is accuracy.
TokenScores token_scores(const at::Tensor& hidden, const OutputLayer& output, const at::Tensor& targets);

struct AdamOptions {
  double learn_rate = 1e-3, beta1 = 0.9, beta2 = 0.98, eps = 1e-9, weight_decay = 0;
  int64_t step = 1;       // from 1, for the bias correction
  double grad_scale = 1;  // multiplies the gradient first: 1 / tokens, and the clipping factor
};
// The optimiser's state, flat and contiguous, every tensor of the same length. Each tensor shares memory with its
// owner.
struct AdamState {
  at::Tensor params;          // float32
  at::Tensor mean, variance;  // float32, the moments
  at::Tensor copy;            // undefined, or bfloat16: the parameters of the model in bf16, rounded in the same pass
};
// One pass over all parameters; grads float32 or, with a copy, bfloat16. Weight decay is decoupled (AdamW).
void adam_step(const AdamState& state, const at::Tensor& grads, const AdamOptions& options);

// sqrt of the sum of squares, in one pass, in double, the same for every thread count.
double l2_norm(const at::Tensor& flat);

}  // namespace fovea::ops
