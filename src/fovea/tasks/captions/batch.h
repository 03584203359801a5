#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "fovea/nn/model.h"
#include "fovea/tasks/captions/corpus.h"

namespace fovea::captions {

// The vectors of images as tensors that own their memory.
struct ImageBatch {
  // `like` gives the type and the device.
  ImageBatch(const Inputs& inputs, std::span<const int64_t> images, const at::Tensor& like);

  at::Tensor vectors;  // [T_src, F]
  at::Tensor offsets;  // [images + 1], on the CPU
};

// Images with all of their captions.
struct CaptionBatch {
  CaptionBatch(const Inputs& inputs, const CaptionCorpus& corpus, const data::Batch& batch, int64_t eos,
               const at::Tensor& like);

  ImageBatch images;
  // The memory that each caption attends to is its image's: rows of the encoder's output [sum over captions], on the
  // device, and offsets [captions + 1] on the CPU. Undefined if each image has one caption.
  at::Tensor memory_rows, memory_offsets;
  at::Tensor inputs, outputs;  // token ids, on the device; </s> begins inputs and ends outputs
  at::Tensor offsets;          // [captions + 1], on the CPU
};

// Teacher forcing: hidden [T_trg, M] before the output layer. Each image is encoded once.
at::Tensor forward(nn::Model& model, const CaptionBatch& batch, const nn::ForwardContext& context);

}  // namespace fovea::captions
