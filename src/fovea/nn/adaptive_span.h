#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/nn/init.h"
#include "fovea/nn/parameter_rules.h"
#include "fovea/nn/pass_extras.h"
#include "fovea/ops/attention.h"
#include "fovea/spec/adaptive_span.h"
#include "fovea/spec/resolved_layer.h"
#include "fovea/spec/stack_config.h"

// Adaptive span (spec/adaptive_span.h): the learned spans of an attention's heads, and the model's table of distances.
// H heads of D, S of them with a span.
namespace fovea::nn {

// Shared by the spans of a model.
struct SpanScheme {
  SpanConfig config = {};
  at::Tensor distances =
      {};  // [longest limit of the model, D]: row -t from the end is of distance t; undefined: no span
  bool has_cold_zeros() const { return config.span_cold_cache == "zeros"; }
  // Registers the table as "distances.weight" if `longest` is above 0.
  void register_table(torch::nn::Module& owner, int64_t longest, int64_t head_dim, const InitScope& scope);
};

// The spans of one attention. Parameter: share [S], in [0, 1], each head's span as a share of its limit.
class AdaptiveSpans : public torch::nn::Module {
 public:
  // `mechanism` has spans.
  AdaptiveSpans(const LayerSpec& mechanism, const SpanScheme& scheme);

  // A mechanism that fits(), with the spans applied. by_head is undefined if the mechanism has no span.
  struct Tables {
    LayerSpec mechanism;  // each head's limit cut to its reach
    AttentionLayerPointer layer;
    at::Tensor by_head;         // [H, reach]: the logarithm of the mask, minus infinity where that is 0
    int64_t by_head_first = 0;  // minus the longest reach
  };
  Tables tables(const LayerSpec& mechanism) const;

  // q [T, H, D], not turned by its positions.
  ops::OffsetTerms terms(const at::Tensor& q, const Tables& tables) const;

  // [H], the span of each head in tokens under a mechanism that fits(), whose limits cut it; nothing for a head
  // without.
  std::vector<std::optional<double>> lengths(const LayerSpec& mechanism) const;

  // Every span of `mechanism` is that of the same head here, of the same limit or a shorter one, which cuts it.
  bool fits(const LayerSpec& mechanism) const;
  // The mean span without and with the ramp, and the greatest without it, for the log, in tokens; in training also the
  // loss that shortens them.
  void report(bool training, PassExtras& extras) const;

 private:
  std::vector<double> shares() const;  // [S]

  std::vector<std::optional<AdaptiveSpan>> spans_;  // [H]
  std::vector<AdaptiveSpan> own_;                   // [S]
  SpanScheme scheme_;
  at::Tensor share_;
};

// Keys and values of attention whose queries see zeros before the text begins, as in the published code.
struct ColdKeys {
  at::Tensor k, v;
  at::Tensor begins, lengths;  // [B] int64 on the CPU
};
// k and v [T_k, H, D] of sequences with their queries, and zeros before those with fewer than `reach` keys before their
// first query. `tokens` as in ops::AttentionOptions::k_tokens.
struct WarmKeys {
  at::Tensor k, v;
  at::Tensor begins, lengths;        // [B] int64 on the CPU
  std::optional<at::Tensor> tokens;  // of beams
};
ColdKeys with_cold_keys(const WarmKeys& keys, const at::Tensor& q_offsets, int64_t reach);

// Spans are in [0, 1], and float32 in any model.
ParameterRules span_rules(const torch::nn::Module& model);

}  // namespace fovea::nn
