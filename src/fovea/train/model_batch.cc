#include "fovea/train/model_batch.h"

#include <ATen/Functions.h>

namespace fovea::train {
namespace {

at::Tensor view(std::vector<int64_t>& values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kLong);
}

}  // namespace

ModelBatch::ModelBatch(const data::ParallelCorpus& corpus, const data::Batch& batch, int64_t target_eos,
                       const at::Device& device)
    : packed(data::pack(corpus, batch, target_eos)),
      source(view(packed.source).to(device)),
      target_inputs(view(packed.target_inputs).to(device)),
      target_outputs(view(packed.target_outputs).to(device)),
      source_offsets(view(packed.source_offsets)),
      target_offsets(view(packed.target_offsets)) {}

at::Tensor forward(nn::Transformer& model, const ModelBatch& batch, const nn::ForwardContext& context) {
  const at::Tensor memory = model->encode(batch.source, batch.source_offsets, context);
  return model->decode(batch.target_inputs, batch.target_offsets, memory, batch.source_offsets, context);
}

}  // namespace fovea::train
