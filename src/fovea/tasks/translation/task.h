#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fovea/base/collective.h"
#include "fovea/data/corpus.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/nn/model.h"
#include "fovea/spec/model_config.h"
#include "fovea/spec/train_config.h"
#include "fovea/tasks/translation/options.h"
#include "fovea/tasks/translation/training_data.h"
#include "fovea/tasks/writing_score.h"
#include "fovea/train/task.h"

namespace fovea::translation {

// --valid-sets and the measures of it.
class Validation {
 public:
  Validation(const TrainConfig& config, const Options& options, const TrainingData& data, const at::Device& device);
  bool enabled() const { return !options_.valid_sets.empty(); }
  const data::ParallelCorpus& corpus() const { return corpus_; }  // empty if not enabled
  // A checksum of the text, and of options other than the usual ones that decide the values. Empty if not enabled.
  std::string fingerprint() const;
  // The values of `names` in their order, the same in each process of the team. Throws Interrupted when a signal comes.
  std::vector<double> run(nn::Model& model, const std::vector<std::string>& names, Collective& team) const;

 private:
  models::GivenScore force(nn::Model& model, Collective& team) const;
  std::vector<std::string> translate(nn::Model& model, Collective& team) const;

  const Options& options_;
  const TrainingData& data_;
  at::Device device_;
  data::ParallelText text_;
  data::ParallelCorpus corpus_;
  std::vector<data::Batch> batches_;
};

// Training of an encoder-decoder on parallel text.
class TranslationTask : public train::Task {
 public:
  TranslationTask(const TrainConfig& config, Options options, const EncoderDecoderConfig& model,
                  int64_t batches_an_update);

  nn::NamedTensors weights_of(const nn::Checkpoint& pretrained) const override;
  std::vector<int64_t> begin_epoch(int64_t epoch) override;
  train::BatchLoss loss(int64_t batch, const nn::ForwardContext& context) override;
  std::vector<double> validate(const std::vector<std::string>& names) override;
  bool shares_validation() const override { return true; }

 private:
  Options options_;
  at::Device device_;
  TrainingData data_;
  EncoderDecoderConfig config_;
  nn::Model model_;
  Validation validation_;
  data::EpochBatches batches_;
};

}  // namespace fovea::translation
