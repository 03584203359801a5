#include "fovea/tasks/captions/batch.h"

#include <ATen/ops/from_blob.h>

#include <utility>

#include "fovea/nn/index_tensor.h"

namespace fovea::captions {
namespace {

std::vector<int64_t> images_of(const CaptionCorpus& corpus, const data::Batch& batch) {
  std::vector<int64_t> images;
  for (const int64_t i : batch) images.push_back(corpus.images[static_cast<size_t>(i)]);
  return images;
}

}  // namespace

ImageBatch::ImageBatch(const Inputs& inputs, std::span<const int64_t> images, const at::Tensor& like) {
  std::vector<float> values;
  std::vector<int64_t> bounds = {0};
  for (const int64_t image : images) {
    inputs.append(image, values);
    bounds.push_back(bounds.back() + inputs.length(image));
  }
  const at::Tensor view = at::from_blob(values.data(), {bounds.back(), inputs.width()}, at::kFloat);
  vectors = view.to(like.options(), /*non_blocking=*/false, /*copy=*/true);
  offsets = nn::index_tensor(std::move(bounds));
}

CaptionBatch::CaptionBatch(const Inputs& source, const CaptionCorpus& corpus, const data::Batch& batch, int64_t eos,
                           const at::Tensor& like)
    : images(source, images_of(corpus, batch), like) {
  std::vector<int64_t> ids_in, ids_out, bounds = {0}, rows, row_bounds = {0};
  const auto* image_bounds = images.offsets.const_data_ptr<int64_t>();
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto image = static_cast<size_t>(batch[i]);
    for (int64_t c = corpus.first_caption[image]; c < corpus.first_caption[image + 1]; ++c) {
      const auto caption = static_cast<size_t>(c);
      const auto first = corpus.tokens.begin() + corpus.caption_offsets[caption],
                 last = corpus.tokens.begin() + corpus.caption_offsets[caption + 1];
      ids_in.push_back(eos);
      ids_in.insert(ids_in.end(), first, last - 1);
      ids_out.insert(ids_out.end(), first, last);
      bounds.push_back(std::ssize(ids_out));
      for (int64_t row = image_bounds[i]; row < image_bounds[i + 1]; ++row) rows.push_back(row);
      row_bounds.push_back(std::ssize(rows));
    }
  }
  inputs = nn::index_tensor(std::move(ids_in)).to(like.device());
  outputs = nn::index_tensor(std::move(ids_out)).to(like.device());
  offsets = nn::index_tensor(std::move(bounds));
  if (offsets.numel() == images.offsets.numel()) return;
  memory_rows = nn::index_tensor(std::move(rows)).to(like.device());
  memory_offsets = nn::index_tensor(std::move(row_bounds));
}

at::Tensor forward(nn::Model& model, const CaptionBatch& batch, const nn::ForwardContext& context) {
  at::Tensor memory = model->encode({batch.images.vectors, batch.images.offsets}, context);
  if (!batch.memory_rows.defined())
    return model->decode({batch.inputs, batch.offsets, memory, batch.images.offsets}, context);
  memory = memory.index_select(0, batch.memory_rows);
  return model->decode({batch.inputs, batch.offsets, memory, batch.memory_offsets}, context);
}

}  // namespace fovea::captions
