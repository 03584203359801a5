#include "fovea/train/validation.h"

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/metrics/bleu.h"
#include "fovea/metrics/chrf.h"
#include "fovea/ops/step.h"
#include "fovea/train/model_batch.h"

namespace fovea::train {
namespace {

void check(const TrainConfig& config, const Hooks& hooks) {
  for (const std::string& metric : config.valid_metrics) {
    if (!valid_metric(metric).is_loss && !hooks.translate)
      throw Error(cat("--valid-metrics ", metric, ": needs translations, which this program does not make"));
  }
}

double chrf(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references) {
  const metrics::Chrf chrf;
  metrics::ChrfStats stats;
  for (size_t i = 0; i < hypotheses.size(); ++i)
    stats += chrf.segment(hypotheses[i], std::span<const std::string>(&references[i], 1));
  return chrf.score(stats);
}

}  // namespace

bool is_better(const std::string& metric, double value, std::optional<double> best) {
  if (!std::isfinite(value)) return false;
  if (!best || !std::isfinite(*best)) return true;
  return valid_metric(metric).is_loss ? value < *best : value > *best;
}

Validation::Validation(const TrainConfig& config, const TrainingData& data, const Hooks& hooks,
                       const at::Device& device)
    : config_(config), data_(data), hooks_(hooks), device_(device) {
  if (!enabled()) return;
  check(config, hooks);
  for (const std::string& file : config.valid_sets) require_file(file, "--valid-sets");
  text_ = data::read_parallel(config.valid_sets[0], config.valid_sets[1]);
  corpus_ = data::encode_corpus(text_, data.source_vocab, data.target_vocab, {.threads = encoding_threads(config)});
  batches_ = data::batches_by_length(corpus_, config.valid_mini_batch_words);
}

std::string Validation::fingerprint() const {
  return checksum(checksum(join(text_.source, "\n")) + checksum(join(text_.target, "\n")));
}

double Validation::cross_entropy(nn::Transformer& model) const {
  double sum = 0;
  for (const data::Batch& batch : batches_) {
    throw_if_interrupted("validation");
    const ModelBatch inputs(corpus_, batch, data_.target_vocab.eos(), device_);
    const at::Tensor hidden = forward(model, inputs, {});
    sum += ops::token_nll(hidden, model->output_weight(), model->output_bias(), inputs.target_outputs)
               .sum(at::kDouble)
               .item<double>();
  }
  return sum / static_cast<double>(corpus_.target.size());
}

std::vector<MetricValue> Validation::run(nn::Transformer& model) const {
  const torch::NoGradGuard no_grad;
  std::optional<double> entropy;
  std::optional<std::vector<std::string>> translations;
  std::vector<MetricValue> values;
  for (const std::string& metric : config_.valid_metrics) {
    const ValidMetric& known = valid_metric(metric);
    if (known.is_loss && !entropy) entropy = cross_entropy(model);
    if (!known.is_loss && !translations)
      translations = hooks_.translate({model, data_.source_vocab, data_.target_vocab, text_.source});
    switch (known.measure) {
      case ValidMeasure::kCrossEntropy:
        values.push_back({metric, *entropy});
        break;
      case ValidMeasure::kPerplexity:
        values.push_back({metric, std::exp(*entropy)});
        break;
      case ValidMeasure::kBleu:
        values.push_back({metric, metrics::corpus_bleu(*translations, text_.target).score});
        break;
      case ValidMeasure::kChrf:
        values.push_back({metric, chrf(*translations, text_.target)});
        break;
    }
  }
  return values;
}

}  // namespace fovea::train
