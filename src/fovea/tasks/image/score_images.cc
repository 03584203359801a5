#include "fovea/tasks/image/score_images.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/shared_work.h"
#include "fovea/base/signals.h"
#include "fovea/data/image_batches.h"
#include "fovea/models/score_bytes.h"
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
  const auto of_batch = [&](int64_t index) {
    throw_if_interrupted("scoring");
    data::ImageSequences batch;
    const int64_t first = index * mini_batch_;
    for (int64_t i = first; i < std::min(first + mini_batch_, images.size()); ++i)
      batch.add(images.at(i), images.shape(), middle);
    const std::vector<int64_t> offsets = batch.offsets;
    const at::Tensor hidden = model->decode(
        {nn::index_tensor(std::move(batch.inputs)).to(device), nn::index_tensor(std::move(batch.offsets))}, {});
    const models::TokenScorer scorer(model, hidden, nn::index_tensor(std::move(batch.outputs)).to(device));
    std::vector<models::GivenScore> scores;
    for (size_t i = 0; i + 1 < offsets.size(); ++i) scores.push_back(scorer.sum(offsets[i], offsets[i + 1]));
    return scores;
  };
  ImageScore score;
  const auto add = [&](const models::GivenScore& of_image) {
    score += of_image;
    ++score.images;
    if (see) see(-of_image.nll);
  };
  const int64_t batches = (images.size() + mini_batch_ - 1) / mini_batch_;
  if (team_.size() == 1) {
    for (int64_t batch = 0; batch < batches; ++batch) std::ranges::for_each(of_batch(batch), add);
    return score;
  }
  const auto bytes_of_batch = [&](int64_t batch) { return models::score_bytes(of_batch(batch)); };
  for (const std::string& bytes : shared_work(team_, batches, bytes_of_batch))
    std::ranges::for_each(models::scores_from(bytes), add);
  return score;
}

}  // namespace fovea::image
