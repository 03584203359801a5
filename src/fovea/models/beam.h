#pragma once
#include <memory>
#include <span>
#include <vector>

#include "fovea/nn/model.h"
#include "fovea/ops/packed_layer.h"
#include "fovea/search/beam.h"
#include "fovea/spec/beam_config.h"

// Beam search with an encoder-decoder: a live model as a scorer of continuations.
namespace fovea::models {

// A model with its decoder and output layer laid out for the search; its weights do not change while this lives.
struct SearchModel {
  explicit SearchModel(nn::Model live, ops::PackedLayer::Format format = ops::PackedLayer::Format::kExact);

  nn::Model model;
  std::shared_ptr<const nn::PackedStack> decoder;
  ops::PackedLayer output;
};

// Returns the hypotheses of each sequence of `inputs`, what encode() made of the source, best first. Input s gets at
// most max_lengths[s] tokens. The model's vocabulary is filled in; `options` has start and eos. Throws Interrupted when
// a signal comes, as "X stopped", X being `what`, and an Error if the model's scores are not finite. For
// c10::InferenceMode.
std::vector<std::vector<search::Hypothesis>> beam_search(SearchModel& model, const nn::OtherSide& inputs,
                                                         std::span<const int64_t> max_lengths,
                                                         search::BeamOptions options, const char* what);

// The options of a search that `config` asks for.
search::BeamOptions beam_options(const BeamConfig& config);

}  // namespace fovea::models
