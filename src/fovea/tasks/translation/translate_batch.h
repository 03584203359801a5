#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "fovea/models/batches.h"
#include "fovea/models/beam.h"
#include "fovea/models/scorer.h"
#include "fovea/search/beam.h"

// The way from the tokens of a batch to the hypotheses of the search.
namespace fovea::translation {

using models::BatchLimits;
using models::PackedSentences;
using models::SearchModel;
using models::Sentence;

struct TranslateOptions {
  search::BeamOptions beam;      // vocabulary, start and eos are filled in from the model and `target_eos`
  double max_length_factor = 3;  // a translation has at most so many times the source's tokens
  int64_t target_eos = 0;
};

// The most tokens of the translation of a source of `source_tokens` tokens.
int64_t longest_translation(const ModelConfig& model, double max_length_factor, int64_t source_tokens);

// Sources, whose tokens end with </s>. demands[s] are those of the translation of source s; none: it has none.
struct SearchedSources {
  std::span<const Sentence> tokens;
  std::span<const search::Demands> demands = {};
};

// Translates any number of sources, batched by length, in evaluation mode, on the device of the model's parameters.
// `take` gets the hypotheses of each source when they are done. Looks for signals between steps.
void translate_all(SearchModel& model, const SearchedSources& sources, const TranslateOptions& options,
                   const BatchLimits& limits, const search::TakeBest& take);
// Like translate_all() above, but returns the hypotheses in the order of the sources.
std::vector<std::vector<search::Hypothesis>> translate_all(SearchModel& model, std::span<const Sentence> sources,
                                                           const TranslateOptions& options, const BatchLimits& limits);

}  // namespace fovea::translation
