#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>

#include "fovea/kernels/layer/prepacked.h"
#include "fovea/ops/step.h"

namespace fovea::kernels {
struct Continuations;  // layer/top_n.h
}

// A layer for many small inputs without gradients: its weight is laid out once for the machine's products. Changes of
// the weight after that are not seen.
namespace fovea::ops {

class PrepackedLayer {
 public:
  // The layer's format: exact, or int8 if the kernels compute (kernels/layer/prepacked.h); otherwise it stays exact.
  using Format = kernels::LayerFormat;

  // weight [N, M], bias [N] or undefined.
  PrepackedLayer(const at::Tensor& weight, const at::Tensor& bias, Format format = Format::kExact);
  // The results are logits, under the layer's soft cap.
  explicit PrepackedLayer(const OutputLayer& output, Format format = Format::kExact);

  Format format() const { return format_; }  // as it was asked for

  // x [T, M] -> activation(x weight^T + bias) [T, N]; of a layer as it is, with the bits of linear().
  at::Tensor operator()(const at::Tensor& x, Activation activation = Activation::kNone) const;

  // The n words of the greatest log-softmax of the results for each row of x [T, M], and that of word `eos`;
  // the layer and x are float32. Also those of the asked words, if there are any. Returns how many
  // rows have none, because logits are not finite numbers: their log-probabilities are -infinity.
  struct Wanted {
    int64_t n = 1, eos = 0;                       // n <= N
    std::span<const int64_t> asked_offsets = {};  // [T + 1]; none: no words
    std::span<const int32_t> asked = {};
  };
  int64_t next_words(const at::Tensor& x, const Wanted& wanted, kernels::Continuations& next) const;

 private:
  at::Tensor uncapped(const at::Tensor& x, Activation activation) const;

  at::Tensor weight_, bias_;
  Format format_;
  double softcap_ = 0;
  std::shared_ptr<const kernels::PrepackedLayer> packed_;  // null where the kernels do not compute: a GPU, another type
};

}  // namespace fovea::ops
