#pragma once
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/corpus.h"
#include "fovea/train/setup.h"
#include "fovea/train/train.h"

namespace fovea::train {

struct MetricValue {
  std::string metric;
  double value = 0;
};

// Is `value` an improvement on `best`? Never if it is not finite, and always on one that is not or is not there.
bool is_better(const std::string& metric, double value, std::optional<double> best);

// --valid-sets and --valid-metrics. ce-mean-words is the mean of -log p over target tokens, </s> included, and
// perplexity its exponential; bleu and chrf are sacreBLEU's on the translations as text.
class Validation {
 public:
  Validation(const TrainConfig& config, const TrainingData& data, const Hooks& hooks, const at::Device& device);
  bool enabled() const { return !config_.valid_sets.empty(); }
  const data::ParallelCorpus& corpus() const { return corpus_; }  // empty where not enabled
  std::string fingerprint() const;                                // of the text: values of another do not compare
  // In the order of --valid-metrics. Throws Interrupted when a signal comes.
  std::vector<MetricValue> run(nn::Transformer& model) const;

 private:
  double cross_entropy(nn::Transformer& model) const;

  const TrainConfig& config_;
  const TrainingData& data_;
  const Hooks& hooks_;
  at::Device device_;
  data::ParallelText text_;
  data::ParallelCorpus corpus_;
  std::vector<data::Batch> batches_;
};

}  // namespace fovea::train
