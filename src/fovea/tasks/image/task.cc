#include "fovea/tasks/image/task.h"

#include <torch/nn/module.h>

#include <utility>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/nn/adaptive_span.h"
#include "fovea/nn/device.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/ops/step.h"
#include "fovea/spec/key_lengths.h"
#include "fovea/tasks/image/measures.h"
#include "fovea/tasks/image/score_images.h"

namespace fovea::image {
namespace {

std::vector<std::string> usual_measures() { return {"bits-per-dim"}; }

std::string batches_fingerprint(const data::ImageSet& images, const data::ImageBatchOptions& options) {
  return checksum(cat(data::fingerprint(images), " ", options.mini_batch, " ", print(options.shape), " ", options.flips,
                      " ", options.seed));
}

// Every value of an image sees those before it.
ImageConfig with_lengths(ImageConfig config) {
  const int64_t values = shape_of(config).values();
  return with_biases(std::move(config), {.decoder = values});
}

}  // namespace

ImageTask::ImageTask(const TrainConfig& config, Options options, const ImageConfig& model,
                     int64_t /*batches_an_update*/)
    : options_(std::move(options)),
      device_(nn::parse_device(config.devices)),
      train_(data::load_images(options_.train_sets, "--train-sets")),
      valid_(data::load_images(options_.valid_sets, "--valid-sets")),
      config_(with_lengths(with_images(model, train_))),
      batch_options_{.mini_batch = options_.mini_batch,
                     .shape = shape_of(config_),
                     .flips = options_.flip,
                     .seed = static_cast<uint64_t>(config.seed)},
      model_(nullptr) {
  if (valid_.size() > 0) require_fitting(config_, valid_, "--valid-sets");
  model_ = nn::Model(config_, config.seed,
                     nn::MediaInput{.image_shape = config_.image_shape});  // after the checks: it may be large
  parts_ = {.module = model_.ptr(),
            .rules = nn::span_rules(*model_),
            .identity = nn::identity_of(kTask, config_, {}),
            .fingerprint = batches_fingerprint(train_, batch_options_),
            .valid_fingerprint = options_.valid_sets.empty() ? "" : data::fingerprint(valid_),
            .measures = measures().known(),
            .default_measures = usual_measures(),
            .weight_unit = "values"};
}

std::vector<int64_t> ImageTask::begin_epoch(int64_t epoch) {
  batches_.emplace(train_, batch_options_, epoch);
  std::vector<int64_t> items(static_cast<size_t>(batches_->size()));
  for (size_t i = 0; i < items.size(); ++i) items[i] = batches_->items(static_cast<int64_t>(i));
  return items;
}

train::BatchLoss ImageTask::loss(int64_t batch, const nn::ForwardContext& context) {
  data::ImageSequences images = batches_->at(batch);
  const auto values = static_cast<double>(images.outputs.size());
  const at::Tensor hidden = model_->decode(
      {nn::index_tensor(std::move(images.inputs)).to(device_), nn::index_tensor(std::move(images.offsets))}, context);
  const at::Tensor outputs = nn::index_tensor(std::move(images.outputs)).to(device_);
  const ops::CrossEntropy cost = ops::cross_entropy(hidden, model_->output_layer(), outputs, 0);
  return {cost.loss, values};
}

std::vector<double> ImageTask::validate(const std::vector<std::string>& names) {
  return image::measures().values(ScoreImages(model_, shape_of(config_), options_.mini_batch, team()).run(valid_),
                                  names);
}

}  // namespace fovea::image
