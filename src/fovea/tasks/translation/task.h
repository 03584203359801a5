#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/nn/transformer.h"
#include "fovea/spec/model_config.h"
#include "fovea/spec/train_config.h"
#include "fovea/tasks/model_validation.h"
#include "fovea/tasks/translation/defaults.h"
#include "fovea/tasks/translation/options.h"
#include "fovea/tasks/translation/validation.h"
#include "fovea/tasks/translation/vocabularies.h"
#include "fovea/train/task.h"

namespace fovea::translation {

inline constexpr const char* kTask = "translation";
inline constexpr const char* kSourceVocabFile = "source.spm";  // in a checkpoint
inline constexpr const char* kTargetVocabFile = "target.spm";

// Training of an encoder-decoder on parallel text.
class TranslationTask : public train::Task {
 public:
  using Options = translation::Options;
  using Model = ModelConfig;
  static std::span<const train::Measure> known_measures() { return translation::measures(); }

  static tasks::ModelValidation load_validation(const TrainConfig& config, const Options& options);

  TranslationTask(const TrainConfig& config, Options options, const ModelConfig& model, int64_t batches_an_update);

  torch::nn::Module& module() override;
  nn::ParameterRules rules() const override;
  const nn::Identity& identity() const override { return identity_; }
  nn::NamedTensors weights_of(const nn::Checkpoint& pretrained) const override;
  std::string fingerprint() const override { return data_.fingerprint; }
  std::vector<int64_t> begin_epoch(int64_t epoch) override;
  train::BatchLoss loss(int64_t batch, const nn::ForwardContext& context) override;
  std::span<const train::Measure> measures() const override { return translation::measures(); }
  std::vector<std::string> default_measures() const override { return translation::default_measures(); }
  std::string valid_fingerprint() const override { return validation_.fingerprint(); }
  std::vector<double> validate(const std::vector<std::string>& names) override;

 private:
  Options options_;
  at::Device device_;
  TrainingData data_;
  ModelConfig config_;
  nn::Identity identity_;
  nn::Transformer model_;
  Validation validation_;
  std::vector<data::Batch> batches_;  // of the epoch
};

}  // namespace fovea::translation
