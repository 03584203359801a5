#include "fovea/tasks/image/score_images.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "fovea/base/signals.h"
#include "fovea/data/image_batches.h"
#include "fovea/models/scorer.h"
#include "fovea/models/whole_segments.h"
#include "fovea/nn/index_tensor.h"

namespace fovea::image {

ImageScore ScoreImages::run(const data::ImageSet& images, const See& see) const {
  const at::NoGradGuard no_grad;
  nn::Model model = model_;
  models::warn_of_whole_segments(model->config());
  const at::Device device = model->output_weight().device();
  const data::ImageCut middle = data::centre_cut(images.shape(), shape_);
  ImageScore score;
  for (int64_t first = 0; first < images.size(); first += mini_batch_) {
    throw_if_interrupted("scoring");
    data::ImageSequences batch;
    for (int64_t i = first; i < std::min(first + mini_batch_, images.size()); ++i)
      batch.add(images.at(i), images.shape(), middle);
    const std::vector<int64_t> offsets = batch.offsets;
    const at::Tensor hidden = model->decode(
        {nn::index_tensor(std::move(batch.inputs)).to(device), nn::index_tensor(std::move(batch.offsets))}, {});
    const models::TokenScorer scorer(model, hidden, nn::index_tensor(std::move(batch.outputs)).to(device));
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      const models::GivenScore of_image = scorer.sum(offsets[i], offsets[i + 1]);
      score += of_image;
      ++score.images;
      if (see) see(-of_image.nll);
    }
  }
  return score;
}

}  // namespace fovea::image
