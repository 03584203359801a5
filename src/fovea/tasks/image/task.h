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
#include "fovea/tasks/image/defaults.h"
#include "fovea/tasks/image/measures.h"
#include "fovea/tasks/image/options.h"
#include "fovea/tasks/model_validation.h"
#include "fovea/train/task.h"

namespace fovea::image {

// Training of a decoder-only model on images, value by value.
class ImageTask final : public train::Task {
 public:
  using Options = image::Options;
  using Model = ImageConfig;
  static std::span<const train::Measure> known_measures() { return image::measures(); }
  static tasks::ModelValidation load_validation(const TrainConfig& config, const Options& options);

  // Batches of an update do not depend on each other, so their number plays no part.
  ImageTask(const TrainConfig& config, Options options, const ImageConfig& model, int64_t batches_an_update);

  torch::nn::Module& module() override;
  nn::ParameterRules rules() const override;
  const nn::Identity& identity() const override { return identity_; }
  std::string fingerprint() const override { return fingerprint_; }
  std::vector<int64_t> begin_epoch(int64_t epoch) override;
  train::BatchLoss loss(int64_t batch, const nn::ForwardContext& context) override;
  std::span<const train::Measure> measures() const override { return image::measures(); }
  std::vector<std::string> default_measures() const override;
  std::string valid_fingerprint() const override { return valid_fingerprint_; }
  std::vector<double> validate(const std::vector<std::string>& names) override;

 private:
  Options options_;
  at::Device device_;
  data::ImageSet train_, valid_;
  ImageConfig config_;
  nn::Identity identity_;
  data::ImageBatchOptions batch_options_;
  std::string fingerprint_, valid_fingerprint_;
  nn::Model model_;
  std::optional<data::ImageBatches> batches_;  // of the epoch
};

}  // namespace fovea::image
