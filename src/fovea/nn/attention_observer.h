#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "fovea/nn/attention.h"
#include "fovea/nn/clauses.h"
#include "fovea/ops/routing.h"

namespace fovea::nn {

// A full pass of one attention, as the mechanism got it. weight_blocks.h computes its weights a block at a time.
struct SeenAttention {
  const AttentionPlace& place;
  const at::Tensor& q;  // packed, [T, H, D]
  const at::Tensor& k;
  const LayerSpec& spec;
  const AttentionLayerPointer layer;                    // the same; null with clauses
  const ops::AttentionOptions& options;                 // with offsets; dropout is to be left out
  const std::vector<ops::RoutedRows>& routed;           // the weights of routed heads
  const at::Tensor weights;                             // dense [B, H, N_q, N_k], of attention with clauses alone
  const Clauses* clauses = nullptr;                     // of the same
  const std::vector<std::optional<double>> spans = {};  // [H] in tokens, of attention with adaptive spans alone

  at::Tensor dense() const;  // the weights of any attention, before dropout, [B, H, N_q, N_k]
};

// While one lives, every full pass of an attention in this thread is also shown to it, before dropout. For analysis;
// decoding step by step is not shown.
class AttentionObserver {
 public:
  // Sees weights: dense [B, H, N_q, N_k], by the reference.
  using See = std::function<void(const AttentionPlace& place, const at::Tensor& weights_BHQK)>;
  using SeeCall = std::function<void(const SeenAttention& seen)>;
  explicit AttentionObserver(See see);
  explicit AttentionObserver(SeeCall see);
  ~AttentionObserver();
  AttentionObserver(const AttentionObserver&) = delete;
  AttentionObserver& operator=(const AttentionObserver&) = delete;

  static const AttentionObserver* current();

  // Hides the observers of this thread while it lives, because a pass that is computed again was already seen.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    const AttentionObserver* paused_;
  };

  void show(const SeenAttention& seen) const { see_(seen); }

 private:
  SeeCall see_;
  const AttentionObserver* outer_;
};

}  // namespace fovea::nn
