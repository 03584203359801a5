#include "fovea/tasks/translation/task.h"

#include <map>
#include <utility>

#include "fovea/models/source_clauses.h"
#include "fovea/nn/adaptive_span.h"
#include "fovea/nn/device.h"
#include "fovea/ops/step.h"
#include "fovea/tasks/translation/batch.h"
#include "fovea/tasks/translation/measures.h"

namespace fovea::translation {
namespace {

std::map<std::string, std::string> files_of(const TrainingData& data) {
  std::map<std::string, std::string> files = data.clause_files;
  files[kSourceVocabFile] = data.source_vocab.bytes();
  files[kTargetVocabFile] = data.target_vocab.bytes();
  return files;
}

}  // namespace

TranslationTask::TranslationTask(const TrainConfig& config, Options options, const EncoderDecoderConfig& model,
                                 int64_t /*batches_an_update*/)
    : options_(std::move(options)),
      device_(nn::parse_device(config.devices)),
      data_(load_training_data(config, options_, model)),
      config_(with_vocabularies(model, data_)),
      model_(config_, config.seed),
      validation_(config, options_, data_, device_) {
  parts_ = {.module = model_.ptr(),
            .rules = nn::span_rules(*model_),
            .identity = nn::identity_of(kTask, config_, files_of(data_)),
            .fingerprint = data_.fingerprint,
            .valid_fingerprint = validation_.fingerprint(),
            .measures = measures().known(),
            .default_measures = translation::default_measures()};
  if (uses_clauses(config_))
    model_->split_clauses_by(models::clause_splitter(data_.source_vocab, models::clause_source_of(parts_.identity)));
  check_positions(config_, data_.train->longest(), "--train-sets");
  check_positions(config_, data::longest_side(validation_.corpus()), "--valid-sets");
}

// A model without clauses becomes one with a mixture: all its weights, and little weight on the clauses.
nn::NamedTensors TranslationTask::weights_of(const nn::Checkpoint& pretrained) const {
  if (data_.clause_files.empty() || pretrained.identity.files.contains(models::kClausesFile))
    return Task::weights_of(pretrained);
  nn::Checkpoint with_clauses = pretrained;
  with_clauses.identity.files.insert(data_.clause_files.begin(), data_.clause_files.end());
  nn::NamedTensors weights = Task::weights_of(with_clauses);
  nn::add_mixtures(*model_, weights);
  return weights;
}

std::vector<int64_t> TranslationTask::begin_epoch(int64_t epoch) {
  batches_ = {};  // two epochs at a time would take twice the memory
  batches_ = data::EpochBatches(data_.train->lengths(), data_.batches, epoch);
  return batches_.sentences();
}

train::BatchLoss TranslationTask::loss(int64_t batch, const nn::ForwardContext& context) {
  const ModelBatch inputs(data_.train->pack(batches_.at(batch), data_.target_vocab.eos()), device_);
  const at::Tensor hidden = forward(model_, inputs, context);
  const ops::CrossEntropy cost = ops::cross_entropy(hidden, model_->output_weight(), model_->output_bias(),
                                                    inputs.target_outputs, options_.label_smoothing);
  return {cost.loss, static_cast<double>(inputs.target_tokens())};
}

std::vector<double> TranslationTask::validate(const std::vector<std::string>& names) {
  return validation_.run(model_, names, team());
}

}  // namespace fovea::translation
