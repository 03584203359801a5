#include "fovea/tasks/translation/translate_batch.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/signals.h"
#include "fovea/decode/diverged.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/ops/packed_layer.h"

namespace fovea::translation {
namespace {

class ModelScorer final : public search::Scorer {
 public:
  ModelScorer(SearchModel& model, const PackedSentences& sources, int64_t eos)
      : model_(model.model), output_(model.output), eos_(eos) {
    const at::Tensor memory = model_->encode(sources.tokens, sources.offsets, {});
    std::vector<int64_t> rows(static_cast<size_t>(sources.offsets.numel() - 1));
    for (size_t r = 0; r < rows.size(); ++r) rows[r] = static_cast<int64_t>(r);
    state_ = model_->start(memory, sources.offsets, rows, model.decoder);
  }

  void step(std::span<const int64_t> parents, std::span<const int64_t> tokens, int64_t n,
            search::Continuations& next) override {
    throw_if_interrupted("translating");
    if (started_) model_->reorder(*state_, {parents.begin(), parents.end()});
    started_ = true;
    const at::Tensor hidden = model_->step(*state_, nn::index_tensor(tokens).to(model_->output_weight().device()));
    if (output_.next_words(hidden.to(at::kFloat), {n, eos_}, next) > 0) decode::refuse_diverged();
  }

 private:
  nn::Transformer& model_;
  const ops::PackedLayer& output_;
  int64_t eos_;
  bool started_ = false;
  std::shared_ptr<nn::TransformerImpl::DecoderState> state_;
};

}  // namespace

PackedSentences pack(std::span<const Sentence* const> sentences, const at::Device& device) {
  std::vector<int64_t> tokens, offsets = {0};
  for (const Sentence* sentence : sentences) {
    tokens.insert(tokens.end(), sentence->begin(), sentence->end());
    offsets.push_back(static_cast<int64_t>(tokens.size()));
  }
  return {nn::index_tensor(tokens).to(device), nn::index_tensor(offsets)};
}

// Logits rounded to bf16 would have two digits, so the output layer is never computed in that.
SearchModel::SearchModel(nn::Transformer live, ops::PackedLayer::Format format)
    : model(std::move(live)),
      decoder(model->pack_decoder(format)),
      output(model->output_weight().to(at::kFloat), model->output_bias().to(at::kFloat), format) {}

std::vector<std::vector<search::Hypothesis>> translate_batch(SearchModel& model,
                                                             std::span<const Sentence* const> sources,
                                                             const TranslateOptions& options) {
  const c10::InferenceMode guard;
  const ModelConfig& config = model.model->config();
  const at::Tensor weight = model.model->output_weight();
  search::BeamOptions beam = options.beam;
  beam.vocabulary = weight.size(0);
  beam.start = beam.eos = options.target_eos;
  std::vector<int64_t> max_lengths;
  for (const Sentence* source : sources) {
    const double limit = std::ceil(options.max_length_factor * static_cast<double>(source->size()));
    auto length = static_cast<int64_t>(std::min(limit, 1e9));
    max_lengths.push_back(longest_text(config, length));
  }
  ModelScorer scorer(model, pack(sources, weight.device()), options.target_eos);
  return search::beam_search(scorer, max_lengths, beam);
}

std::vector<std::vector<search::Hypothesis>> translate_all(SearchModel& model, std::span<const Sentence> sources,
                                                           const TranslateOptions& options, const BatchLimits& limits) {
  std::vector<std::vector<search::Hypothesis>> results(sources.size());
  for (const std::vector<int64_t>& batch : decode::length_batches(sources, limits)) {
    throw_if_interrupted("translating");
    std::vector<const Sentence*> chosen;
    chosen.reserve(batch.size());
    for (const int64_t i : batch) chosen.push_back(&sources[static_cast<size_t>(i)]);
    auto translated = translate_batch(model, chosen, options);
    for (size_t i = 0; i < batch.size(); ++i) results[static_cast<size_t>(batch[i])] = std::move(translated[i]);
  }
  return results;
}

}  // namespace fovea::translation
