#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/image_batches.h"
#include "fovea/data/image_set.h"
#include "fovea/nn/model.h"
#include "fovea/spec/train_config.h"
#include "fovea/tasks/image/config.h"
#include "fovea/tasks/image/options.h"
#include "fovea/train/task.h"

namespace fovea::image {

// Training of a decoder-only model on images, value by value.
class ImageTask final : public train::Task {
 public:
  // Batches of an update do not depend on each other, so their number plays no part.
  ImageTask(const TrainConfig& config, Options options, const ImageConfig& model, int64_t batches_an_update);

  std::vector<int64_t> begin_epoch(int64_t epoch) override;
  train::BatchLoss loss(int64_t batch, const nn::ForwardContext& context) override;
  std::vector<double> validate(const std::vector<std::string>& names) override;
  bool shares_validation() const override { return true; }

 private:
  Options options_;
  at::Device device_;
  data::ImageSet train_, valid_;
  ImageConfig config_;
  data::ImageBatchOptions batch_options_;
  nn::Model model_;
  std::optional<data::ImageBatches> batches_;  // of the epoch
};

}  // namespace fovea::image
