#pragma once
#include "fovea/kernels/simd/hash-inl.h"

// The dropout mask of dropout.h a vector at a time.
namespace fovea::kernels {
namespace {

class Mask {
 public:
  explicit Mask(const DropoutMask& dropout)
      : seed_(dropout.seed), threshold_(dropout_threshold(dropout.rate)), scale_(dropout_scale(dropout.rate)) {}

  bool drops() const { return threshold_ != 0; }

  // v, which holds elements index ... index + kLanes - 1, with the dropped ones zero and the others scaled.
  F apply(F v, int64_t index) {
    if (threshold_ == 0) return v;
    if (index >> 32 != block_) select_block(index >> 32);
    const uint32_t low = static_cast<uint32_t>(index);
    const F scaled = v * set(scale_);
    if (low > 0xffffffffU - kLanes) return apply_singly(scaled, index);
    return select(less(hash32_of(key_, set_uint(low) + (U)iota()), set_uint(threshold_)), set(0), scaled);
  }

 private:
  void select_block(int64_t block) {
    block_ = block;
    key_ = element_dropout_key(seed_, block << 32);
  }

  // Applies the mask to a vector in which elements of two blocks of keys meet.
  F apply_singly(F scaled, int64_t index) const {
    float lanes[kLanes];
    store(lanes, scaled);
    for (int i = 0; i < kLanes; ++i) {
      if (!element_survives(seed_, index + i, threshold_)) lanes[i] = 0;
    }
    return load(lanes);
  }

  int64_t seed_, block_ = -1;
  uint32_t threshold_, key_ = 0;
  float scale_;
};

}  // namespace
}  // namespace fovea::kernels
