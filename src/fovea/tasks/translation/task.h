#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/models/translation/loaded_model.h"
#include "fovea/nn/model.h"
#include "fovea/spec/model_config.h"
#include "fovea/spec/train_config.h"
#include "fovea/tasks/translation/options.h"
#include "fovea/tasks/translation/validation.h"
#include "fovea/tasks/translation/vocabularies.h"
#include "fovea/train/task.h"

namespace fovea::translation {

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
