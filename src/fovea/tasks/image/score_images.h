#pragma once
#include <cstdint>
#include <functional>

#include "fovea/base/collective.h"
#include "fovea/data/image_set.h"
#include "fovea/nn/model.h"
#include "fovea/tasks/image/measures.h"

namespace fovea::image {

// Scores images under a model whose weights do not change while this lives.
class ScoreImages {
 public:
  // `shape` is the model's. `mini_batch` images are computed together; results do not depend on it. The processes of a
  // team share the batches.
  ScoreImages(nn::Model model, const data::ImageShape& shape, int64_t mini_batch, Collective& team = alone())
      : model_(std::move(model)), shape_(shape), mini_batch_(mini_batch), team_(team) {}

  // Scores the middle of each image, as large as the model's. Shows log p of each image in their order, if `see` is
  // given. Throws Interrupted when a signal comes, and an Error if the model's scores are not finite.
  using See = std::function<void(double log_prob)>;
  ImageScore run(const data::ImageSet& images, const See& see = nullptr) const;

 private:
  nn::Model model_;
  data::ImageShape shape_;
  int64_t mini_batch_;
  Collective& team_;
};

}  // namespace fovea::image
