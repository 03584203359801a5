#pragma once
#include <memory>
#include <span>
#include <vector>

#include "fovea/models/beam_options.h"
#include "fovea/nn/model.h"
#include "fovea/ops/prepacked_layer.h"
#include "fovea/search/beam.h"

// Beam search with an encoder-decoder: a live model as a scorer of continuations.
namespace fovea::models {

// A model with its decoder and output layer laid out for the search; its weights do not change while this lives.
struct SearchModel {
  explicit SearchModel(nn::Model live, ops::PrepackedLayer::Format format = ops::PrepackedLayer::Format::kExact);

  nn::Model model;
  std::shared_ptr<const nn::PrepackedStack> decoder;
  ops::PrepackedLayer output;
};

// Gives the hypotheses of each sequence of `inputs`, what encode() made of the source, to `take`. The vocabulary is
// filled in; the sentences' options have start and one eos. Throws Interrupted when a signal comes, as "X stopped", X
// being `what`, and an Error if the model's scores are not finite. For c10::InferenceMode.
void beam_search(SearchModel& model, const nn::OtherSide& inputs, std::vector<search::BeamSentence> sentences,
                 const char* what, const search::TakeBest& take);
// Like beam_search() above, but returns the hypotheses of each sequence, best first.
std::vector<std::vector<search::Hypothesis>> beam_search(SearchModel& model, const nn::OtherSide& inputs,
                                                         std::vector<search::BeamSentence> sentences, const char* what);
// Like beam_search() above, for sequences with the same options: input s gets at most max_lengths[s] tokens.
std::vector<std::vector<search::Hypothesis>> beam_search(SearchModel& model, const nn::OtherSide& inputs,
                                                         std::span<const int64_t> max_lengths,
                                                         const search::BeamOptions& options, const char* what);

}  // namespace fovea::models
