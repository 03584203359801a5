#include "fovea/tasks/captions/validation.h"

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "fovea/base/signals.h"
#include "fovea/metrics/cider.h"
#include "fovea/metrics/coco_bleu.h"
#include "fovea/models/whole_segments.h"
#include "fovea/ops/step.h"
#include "fovea/tasks/captions/batch.h"
#include "fovea/tasks/captions/captioner.h"

namespace fovea::captions {
namespace {

enum class CaptionMeasureKind : uint8_t { kCrossEntropy, kPerplexity, kAccuracy, kCocoBleu, kCider };

struct KnownCaptionMeasure : train::Measure {
  CaptionMeasureKind kind;
};
constexpr std::array kCaptionMeasures = {
    KnownCaptionMeasure{{"ce-mean-words", true, 4}, CaptionMeasureKind::kCrossEntropy},
    KnownCaptionMeasure{{"perplexity", true, 4}, CaptionMeasureKind::kPerplexity},
    KnownCaptionMeasure{{"accuracy", false, 4}, CaptionMeasureKind::kAccuracy},
    KnownCaptionMeasure{{"coco-bleu", false, 2}, CaptionMeasureKind::kCocoBleu},
    KnownCaptionMeasure{{"cider", false, 2}, CaptionMeasureKind::kCider},
};

using References = std::vector<std::vector<std::string>>;

double coco_bleu_of(const std::vector<std::string>& captions, const References& references) {
  const metrics::Bleu counter({.tokenize = "none"});
  metrics::BleuStats stats;
  for (size_t i = 0; i < captions.size(); ++i) stats += counter.segment(captions[i], references[i]);
  return metrics::coco_bleu(stats).bleu.back();
}

double cider_of(const std::vector<std::string>& captions, const References& references) {
  metrics::Cider cider;
  for (size_t i = 0; i < captions.size(); ++i) cider.add(captions[i], references[i]);
  const std::vector<double> scores = cider.scores();
  return std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(scores.size());
}

}  // namespace

std::span<const train::Measure> measures() {
  static const std::vector<train::Measure> kPlain(kCaptionMeasures.begin(), kCaptionMeasures.end());
  return kPlain;
}

std::vector<std::string> default_measures() { return {"ce-mean-words", "coco-bleu", "cider"}; }

Validation::Validation(const Options& options, int64_t patch_size, const std::shared_ptr<const Inputs>& train,
                       const text::Vocab& vocab)
    : options_(options), vocab_(vocab) {
  if (options.valid_captions.empty()) return;
  inputs_ = options.valid_features.empty() ? train : std::make_shared<const Inputs>(options.valid_files(), patch_size);
  const std::string option = "--valid-captions";
  captioned_ =
      pair_captions(*inputs_, data::read_captions(options.valid_captions, option, options.valid_splits), option);
  corpus_ = encode_captions(*inputs_, captioned_, vocab, 0, option);
}

std::string Validation::fingerprint() const { return enabled() ? captions::fingerprint(*inputs_, corpus_) : ""; }

Validation::Forced Validation::force(nn::Model& model) const {
  models::warn_of_whole_segments(model->config());
  double nll = 0;
  int64_t best = 0;
  const auto size = static_cast<size_t>(options_.valid_mini_batch);
  for (int64_t first = 0; first < corpus_.size(); first += options_.valid_mini_batch) {
    throw_if_interrupted("validation");
    data::Batch batch(std::min(size, static_cast<size_t>(corpus_.size() - first)));
    std::iota(batch.begin(), batch.end(), first);
    const CaptionBatch tensors(*inputs_, corpus_, batch, vocab_.eos(), model->output_bias());
    const ops::TokenScores scores =
        ops::token_scores(forward(model, tensors, {}), model->output_weight(), model->output_bias(), tensors.outputs);
    nll += scores.nll.sum(at::kDouble).item<double>();
    best += scores.best.sum().item<int64_t>();
  }
  const auto tokens = static_cast<double>(corpus_.tokens.size());
  return {nll / tokens, static_cast<double>(best) / tokens};
}

// Each validation builds a new Captioner, because a Captioner keeps the weights that it was built with.
std::vector<std::string> Validation::write(nn::Model& model) const {
  CaptionerOptions options;
  options.beam.beam_size = options_.valid_beam_size;
  options.max_length = options_.valid_max_length;
  options.mini_batch = options_.valid_mini_batch;
  std::vector<std::string> texts;
  for (const std::vector<CaptionText>& best : Captioner(model, vocab_, options).run(*inputs_, captioned_.images))
    texts.push_back(best.front().text);
  return texts;
}

std::vector<double> Validation::run(nn::Model& model, const std::vector<std::string>& names) const {
  const torch::NoGradGuard no_grad;
  std::optional<Forced> forced;
  std::optional<std::vector<std::string>> written;
  const auto by_force = [&] { return forced ? *forced : *(forced = force(model)); };
  const auto captions = [&] { return written ? *written : *(written = write(model)); };
  std::vector<double> values;
  for (const std::string& name : names) {
    switch (std::ranges::find_if(kCaptionMeasures, [&](const auto& known) { return known.name == name; })->kind) {
      case CaptionMeasureKind::kCrossEntropy:
        values.push_back(by_force().cross_entropy);
        break;
      case CaptionMeasureKind::kPerplexity:
        values.push_back(std::exp(by_force().cross_entropy));
        break;
      case CaptionMeasureKind::kAccuracy:
        values.push_back(by_force().accuracy);
        break;
      case CaptionMeasureKind::kCocoBleu:
        values.push_back(coco_bleu_of(captions(), captioned_.texts));
        break;
      case CaptionMeasureKind::kCider:
        values.push_back(cider_of(captions(), captioned_.texts));
        break;
    }
  }
  return values;
}

}  // namespace fovea::captions
