#pragma once
#include <span>
#include <string>
#include <vector>

#include "fovea/data/corpus.h"
#include "fovea/nn/model.h"
#include "fovea/tasks/translation/options.h"
#include "fovea/tasks/translation/vocabularies.h"
#include "fovea/train/task.h"

namespace fovea::translation {

// The measures: ce-mean-words is the mean of -log p over target tokens, </s> included; perplexity is its exponential;
// accuracy is the share of those tokens that are the most probable; bleu and chrf are sacreBLEU's on the translations,
// with --documents on whole documents.
std::span<const train::Measure> measures();
std::vector<std::string> default_measures();

// --valid-sets and its measures.
class Validation {
 public:
  Validation(const TrainConfig& config, const Options& options, const TrainingData& data, const at::Device& device);
  bool enabled() const { return !options_.valid_sets.empty(); }
  const data::ParallelCorpus& corpus() const { return corpus_; }  // empty if not enabled
  std::string fingerprint() const;                                // of the text; empty if not enabled
  // The values of `names` in their order. Throws Interrupted when a signal comes.
  std::vector<double> run(nn::Model& model, const std::vector<std::string>& names) const;

 private:
  struct Forced {  // by teacher forcing
    double cross_entropy = 0, accuracy = 0;
  };
  Forced force(nn::Model& model) const;
  std::vector<std::string> translate(nn::Model& model) const;

  const Options& options_;
  const TrainingData& data_;
  at::Device device_;
  data::ParallelText text_;
  data::ParallelCorpus corpus_;
  std::vector<data::Batch> batches_;
};

}  // namespace fovea::translation
