#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/nn/model.h"
#include "fovea/spec/train_config.h"
#include "fovea/tasks/captions/config.h"
#include "fovea/tasks/captions/corpus.h"
#include "fovea/tasks/captions/options.h"
#include "fovea/tasks/captions/validation.h"
#include "fovea/train/task.h"

namespace fovea::captions {

inline constexpr const char* kVocabFile = "captions.spm";  // in a checkpoint

// Training of an encoder-decoder on images and their captions.
class CaptionTask final : public train::Task {
 public:
  // Batches of an update do not depend on each other, so their number plays no part.
  CaptionTask(const TrainConfig& config, Options options, const CaptionConfig& model, int64_t batches_an_update);

  std::vector<int64_t> begin_epoch(int64_t epoch) override;
  train::BatchLoss loss(int64_t batch, const nn::ForwardContext& context) override;
  std::vector<double> validate(const std::vector<std::string>& names) override;
  bool shares_validation() const override { return true; }

 private:
  Options options_;
  at::Device device_;
  text::Vocab vocab_;
  std::shared_ptr<const Inputs> inputs_;
  CaptionCorpus corpus_;
  CaptionConfig config_;
  data::BatchOptions batch_options_;
  Validation validation_;
  nn::Model model_;
  std::vector<data::Batch> batches_;  // of the epoch
};

}  // namespace fovea::captions
