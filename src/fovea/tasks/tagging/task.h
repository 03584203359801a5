#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/columns.h"
#include "fovea/data/corpus.h"
#include "fovea/models/tagging/config.h"
#include "fovea/models/tagging/labels.h"
#include "fovea/models/tagging/sentences.h"
#include "fovea/models/tagging/tag_sentences.h"
#include "fovea/spec/train_config.h"
#include "fovea/tasks/tagging/options.h"
#include "fovea/tasks/tagging/pretrained.h"
#include "fovea/train/task.h"

namespace fovea::tagging {

// Training data: for each part the labels of its words (source) and its tokens (target).
struct TaggedText {
  data::ParallelCorpus parts;
  std::vector<int64_t> firsts;  // beside parts.source
  std::vector<uint8_t> levels;  // beside parts.target; none for models without clauses
  int64_t sentences = 0;        // of which the parts are
};
TaggedText encode_text(const data::LabelledText& text, const LabelSet& labels, SentenceEncoder& encoder,
                       const ClauseFinder& clauses);

// The tokens of some parts, and their words' labels.
struct LabelledBatch : TagBatch {
  std::vector<int64_t> labels;
};
LabelledBatch batch_of(const TaggedText& text, const data::Batch& parts);

// Training of an encoder-only model that labels words.
class TaggingTask final : public train::Task {
 public:
  TaggingTask(const TrainConfig& config, Options options, const TaggingConfig& model, int64_t batches_an_update);

  nn::NamedTensors weights_of(const nn::Checkpoint& pretrained) const override;
  std::vector<int64_t> begin_epoch(int64_t epoch) override;
  train::BatchLoss loss(int64_t batch, const nn::ForwardContext& context) override;
  std::vector<double> validate(const std::vector<std::string>& names) override;
  bool shares_validation() const override { return true; }

 private:
  ClauseFinder clause_finder() const { return ClauseFinder(clauses_ ? &*clauses_ : nullptr); }

  Options options_;
  at::Device device_;
  TaggerStart begin_;
  std::optional<text::ClauseDictionary> clauses_;  // none: the model has no clauses
  data::LabelledText train_;                       // empty once text_ is made of it
  data::LabelledText valid_;
  metrics::LabelNotation notation_;
  LabelSet labels_;
  TaggedText text_;
  data::BatchOptions batch_options_;
  Tagger model_;
  std::vector<data::Batch> batches_;  // of the epoch
};

}  // namespace fovea::tagging
