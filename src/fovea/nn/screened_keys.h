#pragma once
#include <ATen/core/Tensor.h>

#include <span>

#include "fovea/nn/attention.h"
#include "fovea/ops/key_screen.h"

namespace fovea::nn {

// A range of tokens of a cache's buffer.
struct TokenRange {
  int64_t first = 0, count = 0;
};

// The 8-bit copy of one layer's keys beside a StepCache's buffer, at the same places. Without a buffer it is empty.
class ScreenedKeys {
 public:
  // Whether steps of this attention read such a copy.
  static bool are_read_by(const Attention& attention);

  // Copies the keys of a new buffer, [tokens, H, D], that lie in `used`. The centre becomes the mean of some of them.
  void rebuild(const at::Tensor& keys, std::span<const TokenRange> used);
  // Copies keys [T, H, D] to places [T], or if it is undefined to `first`, first + 1, ...
  void write(const at::Tensor& keys, const at::Tensor& places, int64_t first);
  void copy(int64_t from, int64_t to, int64_t count);

  const ops::KeyScreen& get() const { return screen_; }

 private:
  ops::KeyScreen screen_;
  at::Tensor centre_;  // [H, D]; undefined until the first keys come
};

}  // namespace fovea::nn
