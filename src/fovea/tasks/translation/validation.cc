#include "fovea/tasks/translation/validation.h"

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "fovea/base/documents.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/data/document_corpus.h"
#include "fovea/metrics/bleu.h"
#include "fovea/metrics/chrf.h"
#include "fovea/metrics/unspaced.h"
#include "fovea/models/whole_segments.h"
#include "fovea/ops/step.h"
#include "fovea/tasks/encoding_threads.h"
#include "fovea/tasks/translation/batch.h"
#include "fovea/tasks/translation/documents.h"
#include "fovea/tasks/translation/translator.h"
#include "fovea/train/measure.h"

namespace fovea::translation {
namespace {

enum class MeasureKind : uint8_t { kCrossEntropy, kPerplexity, kAccuracy, kBleu, kChrf };

struct KnownMeasure : train::Measure {
  MeasureKind kind;
  bool of_translations;
};
constexpr std::array kMeasures = {
    KnownMeasure{{"ce-mean-words", true, 4}, MeasureKind::kCrossEntropy, false},
    KnownMeasure{{"perplexity", true, 4}, MeasureKind::kPerplexity, false},
    KnownMeasure{{"accuracy", false, 4}, MeasureKind::kAccuracy, false},
    KnownMeasure{{"bleu", false, 2}, MeasureKind::kBleu, true},
    KnownMeasure{{"chrf", false, 2}, MeasureKind::kChrf, true},
};

const KnownMeasure& known(const std::string& name) {
  return *std::ranges::find_if(kMeasures, [&](const KnownMeasure& measure) { return measure.name == name; });
}

double chrf(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references) {
  const metrics::Chrf chrf;
  metrics::ChrfStats stats;
  for (size_t i = 0; i < hypotheses.size(); ++i)
    stats += chrf.segment(hypotheses[i], std::span<const std::string>(&references[i], 1));
  return chrf.score(stats);
}

}  // namespace

std::span<const train::Measure> measures() {
  static const std::vector<train::Measure> kPlain(kMeasures.begin(), kMeasures.end());
  return kPlain;
}

std::vector<std::string> default_measures() { return {"ce-mean-words", "bleu"}; }

Validation::Validation(const TrainConfig& config, const Options& options, const TrainingData& data,
                       const at::Device& device)
    : options_(options), data_(data), device_(device) {
  if (!enabled()) return;
  for (const std::string& file : options.valid_sets) require_file(file, "--valid-sets");
  text_ = data::read_parallel(options.valid_sets[0], options.valid_sets[1]);
  const int threads = tasks::encoding_threads(config);
  corpus_ = options.documents
                ? data::load_documents(text_, data.source_vocab, data.target_vocab, {options.document_length, threads})
                : data::encode_corpus(text_, data.source_vocab, data.target_vocab, {.threads = threads});
  batches_ = data::batches_by_length(corpus_, options.valid_mini_batch_words);
  const std::vector<std::string> measured = config.valid_metrics.empty() ? default_measures() : config.valid_metrics;
  const bool has_bleu = std::ranges::find(measured, "bleu") != measured.end();
  const std::string_view better =
      has_bleu ? metrics::better_tokenizer(text_.target, options.valid_tokenize) : std::string_view();
  if (!better.empty()) log::warn(metrics::unspaced_message("--valid-tokenize", options.valid_tokenize, better));
}

std::string Validation::fingerprint() const {
  if (!enabled()) return "";
  return checksum(checksum(join(text_.source, "\n")) + checksum(join(text_.target, "\n")));
}

Validation::Forced Validation::force(nn::Model& model) const {
  models::warn_of_whole_segments(model->config());
  double nll = 0;
  int64_t best = 0;
  for (const data::Batch& batch : batches_) {
    throw_if_interrupted("validation");
    const ModelBatch inputs(corpus_, batch, data_.target_vocab.eos(), device_);
    const ops::TokenScores scores = ops::token_scores(forward(model, inputs, {}), model->output_weight(),
                                                      model->output_bias(), inputs.target_outputs);
    nll += scores.nll.sum(at::kDouble).item<double>();
    best += scores.best.sum().item<int64_t>();
  }
  const auto tokens = static_cast<double>(corpus_.target.size());
  return {nll / tokens, static_cast<double>(best) / tokens};
}

// Each validation builds a new Translator, because a Translator keeps the weights that it was built with.
std::vector<std::string> Validation::translate(nn::Model& model) const {
  DecodeConfig decode;
  decode.beam_size = options_.valid_beam_size;
  decode.max_length_factor = options_.valid_max_length_factor;
  decode.mini_batch_words = options_.valid_mini_batch_words;
  decode.mini_batch = options_.valid_mini_batch_words;
  decode.documents = options_.documents;
  Translator translator({model, data_.source_vocab, data_.target_vocab}, translator_options(decode));
  if (options_.documents) {
    DocumentTranslator documents(translator, options_.document_length);
    return join_documents(documents.translate(text_.source), text_.target);
  }
  std::vector<std::string> texts;
  for (const std::vector<Translation>& best : translator.translate(text_.source)) texts.push_back(best.front().text);
  return texts;
}

std::vector<double> Validation::run(nn::Model& model, const std::vector<std::string>& names) const {
  const torch::NoGradGuard no_grad;
  std::optional<Forced> forced;
  std::optional<std::vector<std::string>> translations;
  const std::vector<std::string> references =
      options_.documents ? join_documents(text_.target, text_.target) : text_.target;
  std::vector<double> values;
  for (const std::string& name : names) {
    const KnownMeasure& measure = known(name);
    if (measure.of_translations && !translations) translations = translate(model);
    if (!measure.of_translations && !forced) forced = force(model);
    switch (measure.kind) {
      case MeasureKind::kCrossEntropy:
        values.push_back(forced->cross_entropy);
        break;
      case MeasureKind::kPerplexity:
        values.push_back(std::exp(forced->cross_entropy));
        break;
      case MeasureKind::kAccuracy:
        values.push_back(forced->accuracy);
        break;
      case MeasureKind::kBleu:
        values.push_back(metrics::corpus_bleu(*translations, references, {.tokenize = options_.valid_tokenize}).score);
        break;
      case MeasureKind::kChrf:
        values.push_back(chrf(*translations, references));
        break;
    }
  }
  return values;
}

}  // namespace fovea::translation
