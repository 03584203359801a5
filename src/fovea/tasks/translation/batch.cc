#include "fovea/tasks/translation/batch.h"

#include <utility>

#include "fovea/nn/index_tensor.h"

namespace fovea::translation {

ModelBatch::ModelBatch(const data::ParallelCorpus& corpus, const data::Batch& batch, int64_t target_eos,
                       const at::Device& device)
    : ModelBatch(data::pack(corpus, batch, target_eos), device) {}

ModelBatch::ModelBatch(data::PackedBatch packed, const at::Device& device) {
  source = nn::index_tensor(std::move(packed.source)).to(device);
  target_inputs = nn::index_tensor(std::move(packed.target_inputs)).to(device);
  target_outputs = nn::index_tensor(std::move(packed.target_outputs)).to(device);
  source_offsets = nn::index_tensor(std::move(packed.source_offsets));
  target_offsets = nn::index_tensor(std::move(packed.target_offsets));
}

at::Tensor forward(nn::Model& model, const ModelBatch& batch, const nn::ForwardContext& context) {
  const at::Tensor memory = model->encode({batch.source, batch.source_offsets}, context);
  return model->decode({batch.target_inputs, batch.target_offsets, memory, batch.source_offsets}, context);
}

}  // namespace fovea::translation
