#include "fovea/models/beam.h"

#include <numeric>
#include <utility>

#include "fovea/base/signals.h"
#include "fovea/models/diverged.h"
#include "fovea/nn/index_tensor.h"

namespace fovea::models {
namespace {

class ModelScorer final : public search::Scorer {
 public:
  ModelScorer(SearchModel& model, const nn::OtherSide& inputs, int64_t eos, const char* what)
      : model_(model.model), output_(model.output), eos_(eos), what_(what) {
    std::vector<int64_t> rows(static_cast<size_t>(inputs.offsets.numel() - 1));
    std::iota(rows.begin(), rows.end(), 0);
    state_ = model_->start(inputs, rows, model.decoder);
  }

  void step(const search::ScoredRows& rows, search::Continuations& next) override {
    throw_if_interrupted(what_);
    if (started_) state_->reorder({rows.parents.begin(), rows.parents.end()});
    started_ = true;
    const at::Tensor hidden = state_->step(nn::index_tensor(rows.tokens).to(model_->output_weight().device()));
    if (output_.next_words(hidden.to(at::kFloat), {rows.n, eos_, rows.asked_offsets, rows.asked}, next) > 0)
      refuse_diverged();
  }

 private:
  nn::Model& model_;
  const ops::PrepackedLayer& output_;
  int64_t eos_;
  const char* what_;
  bool started_ = false;
  std::shared_ptr<nn::Stepper> state_;
};

}  // namespace

// Logits rounded to bf16 would have two digits, so the output layer is never computed in that.
SearchModel::SearchModel(nn::Model live, ops::PrepackedLayer::Format format)
    : model(std::move(live)),
      decoder(model->pack(format)),
      output(model->output_weight().to(at::kFloat),
             model->output_bias().defined() ? model->output_bias().to(at::kFloat) : at::Tensor(), format) {}

void beam_search(SearchModel& model, const nn::OtherSide& inputs, std::vector<search::BeamSentence> sentences,
                 const char* what, const search::TakeBest& take) {
  if (sentences.empty()) return;
  for (search::BeamSentence& sentence : sentences) sentence.options.vocabulary = model.model->output_weight().size(0);
  ModelScorer scorer(model, inputs, sentences.front().options.eos, what);
  search::beam_search(scorer, std::move(sentences), take);
}

std::vector<std::vector<search::Hypothesis>> beam_search(SearchModel& model, const nn::OtherSide& inputs,
                                                         std::vector<search::BeamSentence> sentences,
                                                         const char* what) {
  std::vector<std::vector<search::Hypothesis>> results(sentences.size());
  beam_search(model, inputs, std::move(sentences), what, [&](int64_t sentence, std::vector<search::Hypothesis> best) {
    results[static_cast<size_t>(sentence)] = std::move(best);
  });
  return results;
}

std::vector<std::vector<search::Hypothesis>> beam_search(SearchModel& model, const nn::OtherSide& inputs,
                                                         std::span<const int64_t> max_lengths,
                                                         const search::BeamOptions& options, const char* what) {
  std::vector<search::BeamSentence> sentences;
  for (const int64_t max_length : max_lengths) sentences.push_back({options, max_length});
  return beam_search(model, inputs, std::move(sentences), what);
}

}  // namespace fovea::models
