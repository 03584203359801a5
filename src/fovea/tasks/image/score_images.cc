#include "fovea/tasks/image/score_images.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "fovea/base/signals.h"
#include "fovea/data/image_batches.h"
#include "fovea/models/diverged.h"
#include "fovea/models/whole_segments.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/ops/step.h"

namespace fovea::image {

ImageScore ScoreImages::run(const data::ImageSet& images, const See& see) const {
  const at::NoGradGuard no_grad;
  nn::DecoderOnly model = model_;
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
    const at::Tensor hidden = model->forward(nn::index_tensor(std::move(batch.inputs)).to(device),
                                             nn::index_tensor(std::move(batch.offsets)), {});
    const at::Tensor targets = nn::index_tensor(std::move(batch.outputs)).to(device);
    const ops::TokenScores scores = ops::token_scores(hidden, model->output_weight(), model->output_bias(), targets);
    const at::Tensor nll = scores.nll.cpu(), best = scores.best.cpu();
    const auto* losses = nll.const_data_ptr<float>();
    const auto* hits = best.const_data_ptr<bool>();
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      double of_image = 0;
      for (int64_t t = offsets[i]; t < offsets[i + 1]; ++t) {
        if (!std::isfinite(losses[t])) models::refuse_diverged();
        of_image += losses[t];
        score.correct += hits[t] ? 1 : 0;
      }
      score.nll += of_image;
      score.values += offsets[i + 1] - offsets[i];
      ++score.images;
      if (see) see(-of_image);
    }
  }
  return score;
}

}  // namespace fovea::image
