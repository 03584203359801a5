#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "fovea/nn/attention.h"
#include "fovea/ops/routing.h"

namespace fovea::nn {

// While one lives, every full pass of an attention in this thread also shows its weights to `see`: dense
// [B, H, N_q, N_k], by the reference, before dropout. For analysis; decoding step by step is not shown.
class AttentionObserver {
 public:
  using See = std::function<void(const AttentionPlace& place, const at::Tensor& weights_BHQK)>;
  // Sees the clusters of the attention's routed groups; none of other attentions. Comes before its weights.
  using SeeMembers = std::function<void(const AttentionPlace& place, const std::vector<ops::RoutedMembers>& members)>;
  explicit AttentionObserver(See see, SeeMembers see_members = nullptr);
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

  void show(const AttentionPlace& place, const at::Tensor& weights_BHQK) const { see_(place, weights_BHQK); }
  void show_members(const AttentionPlace& place, const std::vector<ops::RoutedMembers>& members) const {
    if (see_members_) see_members_(place, members);
  }

 private:
  See see_;
  SeeMembers see_members_;
  const AttentionObserver* outer_;
};

}  // namespace fovea::nn
