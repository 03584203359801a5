#pragma once
#include <ATen/core/Tensor.h>

#include "fovea/data/corpus.h"
#include "fovea/nn/model.h"

namespace fovea::translation {

// A packed batch as tensors that own their memory.
struct ModelBatch {
  ModelBatch(data::PackedBatch packed, const at::Device& device);
  ModelBatch(const data::ParallelCorpus& corpus, const data::Batch& batch, int64_t target_eos,
             const at::Device& device);

  at::Tensor source, target_inputs, target_outputs;  // token ids, on the device
  at::Tensor source_offsets, target_offsets;         // [sentences + 1], on the CPU
  int64_t target_tokens() const { return target_outputs.numel(); }
};

// Teacher forcing: hidden [T_trg, M] before the output layer.
at::Tensor forward(nn::Model& model, const ModelBatch& batch, const nn::ForwardContext& context);

}  // namespace fovea::translation
