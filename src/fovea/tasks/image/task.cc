#include "fovea/tasks/image/task.h"

#include <torch/nn/module.h>

#include <memory>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/nn/adaptive_span.h"
#include "fovea/nn/device.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/ops/step.h"
#include "fovea/tasks/image/load_model.h"
#include "fovea/tasks/image/score_images.h"

namespace fovea::image {
namespace {

std::vector<std::string> usual_measures() { return {"bits-per-dim"}; }

std::vector<double> measure_values(const ImageScore& score, const std::vector<std::string>& names) {
  std::vector<double> values;
  for (const std::string& name : names) values.push_back(value_of(score, name));
  return values;
}

std::string batches_fingerprint(const data::ImageSet& images, const data::ImageBatchOptions& options) {
  return checksum(cat(data::fingerprint(images), " ", options.mini_batch, " ", print(options.shape), " ", options.flips,
                      " ", options.seed));
}

}  // namespace

ImageTask::ImageTask(const TrainConfig& config, Options options, const ImageConfig& model,
                     int64_t /*batches_an_update*/)
    : options_(std::move(options)),
      device_(nn::parse_device(config.devices)),
      train_(data::load_images(options_.train_sets, "--train-sets")),
      valid_(data::load_images(options_.valid_sets, "--valid-sets")),
      config_(with_images(model, train_)),
      identity_(nn::identity_of(kTask, config_, {})),
      batch_options_{.mini_batch = options_.mini_batch,
                     .shape = shape_of(config_),
                     .flips = options_.flip,
                     .seed = static_cast<uint64_t>(config.seed)},
      fingerprint_(batches_fingerprint(train_, batch_options_)),
      valid_fingerprint_(options_.valid_sets.empty() ? "" : data::fingerprint(valid_)),
      model_(nullptr) {
  if (valid_.size() > 0) require_fitting(config_, valid_, "--valid-sets");
  model_ = nn::DecoderOnly(config_, config.seed);  // after the checks: it may be large
}

torch::nn::Module& ImageTask::module() { return *model_; }

nn::ParameterRules ImageTask::rules() const { return nn::span_rules(*model_); }

std::vector<int64_t> ImageTask::begin_epoch(int64_t epoch) {
  batches_.emplace(train_, batch_options_, epoch);
  std::vector<int64_t> items(static_cast<size_t>(batches_->size()));
  for (size_t i = 0; i < items.size(); ++i) items[i] = batches_->items(static_cast<int64_t>(i));
  return items;
}

train::BatchLoss ImageTask::loss(int64_t batch, const nn::ForwardContext& context) {
  data::ImageSequences images = batches_->at(batch);
  const auto values = static_cast<double>(images.outputs.size());
  nn::ForwardContext complete = context;
  complete.recompute = options_.gradient_checkpointing;
  const at::Tensor hidden = model_->forward(nn::index_tensor(std::move(images.inputs)).to(device_),
                                            nn::index_tensor(std::move(images.offsets)), complete);
  const at::Tensor outputs = nn::index_tensor(std::move(images.outputs)).to(device_);
  const ops::CrossEntropy cost = ops::cross_entropy(hidden, model_->output_weight(), model_->output_bias(), outputs, 0);
  return {cost.loss, values};
}

std::vector<double> ImageTask::validate(const std::vector<std::string>& names) {
  return measure_values(ScoreImages(model_, shape_of(config_), options_.mini_batch).run(valid_), names);
}

std::vector<std::string> ImageTask::default_measures() const { return usual_measures(); }

tasks::ModelValidation ImageTask::load_validation(const TrainConfig& config, const Options& options) {
  if (options.valid_sets.empty()) throw UsageError("--valid-sets is missing; expected folders or files of images");
  TrainedModelOptions model;
  model.model = config.model;
  model.devices = config.devices;
  model.cpu_threads = config.cpu_threads;
  const auto loaded = std::make_shared<LoadedModel>(load_model(model));
  const auto images = std::make_shared<data::ImageSet>(data::load_images(options.valid_sets, "--valid-sets"));
  require_fitting(loaded->config, *images, "--valid-sets");
  return {.module = loaded->model.ptr(),
          .measures = known_measures(),
          .default_measures = usual_measures(),
          .validate = [loaded, images, mini_batch = options.mini_batch](const std::vector<std::string>& names) {
            return measure_values(ScoreImages(loaded->model, shape_of(loaded->config), mini_batch).run(*images), names);
          }};
}

}  // namespace fovea::image
