#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/streams.h"
#include "fovea/data/token_text.h"
#include "fovea/data/unit_source.h"
#include "fovea/nn/model.h"
#include "fovea/spec/train_config.h"
#include "fovea/tasks/language/config.h"
#include "fovea/tasks/language/options.h"
#include "fovea/tasks/language/stream_memory.h"
#include "fovea/text/units.h"
#include "fovea/train/task.h"

namespace fovea::language {

// Training of a decoder-only model on text.
class LanguageTask final : public train::Task {
 public:
  LanguageTask(const TrainConfig& config, Options options, const LanguageConfig& model, int64_t batches_an_update);

  std::vector<int64_t> begin_epoch(int64_t epoch) override;
  train::BatchLoss loss(int64_t batch, const nn::ForwardContext& context) override;
  std::vector<double> validate(const std::vector<std::string>& names) override;
  bool shares_validation() const override { return true; }
  void after_update(bool made) override;
  nn::NamedTensors carried() const override;
  void restore(const nn::NamedTensors& carried, const std::string& origin) override;

 private:
  Options options_;
  at::Device device_;
  LanguageConfig config_;
  text::Units units_;
  std::unique_ptr<data::UnitSource> train_;
  data::TokenText valid_;
  data::SegmentOptions segments_;
  nn::Model model_;
  std::optional<data::SegmentBatches> batches_;  // of the epoch
  std::optional<StreamMemory> memory_;           // --memory-length
};

}  // namespace fovea::language
