#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fovea/base/collective.h"
#include "fovea/nn/model.h"
#include "fovea/spec/train_config.h"
#include "fovea/tasks/captions/config.h"
#include "fovea/tasks/captions/corpus.h"
#include "fovea/tasks/captions/options.h"
#include "fovea/tasks/writing_score.h"
#include "fovea/train/task.h"

namespace fovea::captions {

// --valid-captions and the measures of them.
class Validation {
 public:
  // `train` are the inputs of training, which validation shares if --valid-features is not given.
  Validation(const Options& options, int64_t patch_size, const std::shared_ptr<const Inputs>& train,
             const text::Vocab& vocab);
  bool enabled() const { return inputs_ != nullptr; }
  const Inputs& inputs() const { return *inputs_; }        // if enabled
  const CaptionCorpus& corpus() const { return corpus_; }  // empty if not enabled
  // A checksum of the data, and of options other than the usual ones that decide the values. Empty if not enabled.
  std::string fingerprint() const;
  // The values of `names` in their order, which the processes of a team compute together. Throws Interrupted when a
  // signal comes.
  std::vector<double> run(nn::Model& model, const std::vector<std::string>& names, Collective& team) const;

 private:
  int64_t batches_of(int64_t count) const {
    return (count + options_.valid_mini_batch - 1) / options_.valid_mini_batch;
  }
  models::GivenScore force(nn::Model& model, Collective& team) const;
  std::vector<std::string> write(nn::Model& model, Collective& team) const;

  const Options& options_;
  const text::Vocab& vocab_;
  std::shared_ptr<const Inputs> inputs_;  // null: not enabled
  CaptionedImages captioned_;
  CaptionCorpus corpus_;
};

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
