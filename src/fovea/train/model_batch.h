#pragma once
#include <ATen/core/Tensor.h>

#include "fovea/data/corpus.h"
#include "fovea/nn/transformer.h"

namespace fovea::train {

// A packed batch as tensors; on the CPU they are views of it, so it must not be moved.
struct ModelBatch {
  ModelBatch(const data::ParallelCorpus& corpus, const data::Batch& batch, int64_t target_eos,
             const at::Device& device);
  ModelBatch(const ModelBatch&) = delete;
  ModelBatch& operator=(const ModelBatch&) = delete;

  data::PackedBatch packed;
  at::Tensor source, target_inputs, target_outputs;  // on the device
  at::Tensor source_offsets, target_offsets;         // on the CPU
  int64_t target_tokens() const { return static_cast<int64_t>(packed.target_outputs.size()); }
};

// Teacher forcing: hidden [T_trg, M] before the output layer.
at::Tensor forward(nn::Transformer& model, const ModelBatch& batch, const nn::ForwardContext& context);

}  // namespace fovea::train
