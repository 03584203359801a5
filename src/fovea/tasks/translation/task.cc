#include "fovea/tasks/translation/task.h"

#include <utility>

#include "fovea/decode/whole_segments.h"
#include "fovea/nn/adaptive_span.h"
#include "fovea/nn/device.h"
#include "fovea/ops/step.h"
#include "fovea/tasks/translation/batch.h"

namespace fovea::translation {

TranslationTask::TranslationTask(const TrainConfig& config, Options options, const ModelConfig& model,
                                 int64_t /*batches_an_update*/)
    : options_(std::move(options)),
      device_(nn::parse_device(config.devices)),
      data_(load_training_data(config, options_)),
      config_(with_vocabularies(model, data_)),
      identity_(nn::identity_of(
          kTask, config_,
          {{kSourceVocabFile, data_.source_vocab.bytes()}, {kTargetVocabFile, data_.target_vocab.bytes()}})),
      model_(config_, config.seed),
      validation_(config, options_, data_, device_) {
  check_positions(config_, data_.train, "--train-sets");
  check_positions(config_, validation_.corpus(), "--valid-sets");
  if (!options_.valid_sets.empty()) decode::warn_of_whole_segments(config_);
}

torch::nn::Module& TranslationTask::module() { return *model_; }

nn::ParameterRules TranslationTask::rules() const { return nn::span_rules(*model_); }

std::vector<int64_t> TranslationTask::begin_epoch(int64_t epoch) {
  batches_ = data::batches_of_epoch(data_.train, data_.batches, epoch);
  std::vector<int64_t> sentences;
  sentences.reserve(batches_.size());
  for (const data::Batch& batch : batches_) sentences.push_back(std::ssize(batch));
  return sentences;
}

train::BatchLoss TranslationTask::loss(int64_t batch, const nn::ForwardContext& context) {
  const ModelBatch inputs(data_.train, batches_.at(static_cast<size_t>(batch)), data_.target_vocab.eos(), device_);
  const at::Tensor hidden = forward(model_, inputs, context);
  const ops::CrossEntropy cost = ops::cross_entropy(hidden, model_->output_weight(), model_->output_bias(),
                                                    inputs.target_outputs, options_.label_smoothing);
  return {cost.loss, static_cast<double>(inputs.target_tokens())};
}

std::vector<double> TranslationTask::validate(const std::vector<std::string>& names) {
  return validation_.run(model_, names);
}

}  // namespace fovea::translation
