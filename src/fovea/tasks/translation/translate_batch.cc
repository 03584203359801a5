#include "fovea/tasks/translation/translate_batch.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "fovea/base/signals.h"

namespace fovea::translation {

int64_t longest_translation(const ModelConfig& model, double max_length_factor, int64_t source_tokens) {
  const double limit = std::ceil(max_length_factor * static_cast<double>(source_tokens));
  return longest_text(model, static_cast<int64_t>(std::min(limit, 1e9)));
}

namespace {

// One batch: `take` gets the hypotheses with the number of their source among all.
void translate_batch(SearchModel& model, const SearchedSources& sources, std::span<const int64_t> batch,
                     const TranslateOptions& options, const search::TakeBest& take) {
  const c10::InferenceMode guard;
  search::BeamOptions beam = options.beam;
  beam.start = beam.eos = options.target_eos;
  std::vector<const Sentence*> chosen;
  std::vector<search::BeamSentence> sentences;
  for (const int64_t i : batch) {
    const auto source = static_cast<size_t>(i);
    chosen.push_back(&sources.tokens[source]);
    const int64_t longest =
        longest_translation(model.model->config(), options.max_length_factor, std::ssize(*chosen.back()));
    sentences.push_back({beam, longest, sources.demands.empty() ? search::Demands() : sources.demands[source]});
  }
  const PackedSentences packed = models::pack(chosen, model.model->output_weight().device());
  const at::Tensor memory = model.model->encode({packed.tokens, packed.offsets}, {});
  models::beam_search(model, {memory, packed.offsets}, std::move(sentences), "translating",
                      [&](int64_t sentence, std::vector<search::Hypothesis> best) {
                        take(batch[static_cast<size_t>(sentence)], std::move(best));
                      });
}

}  // namespace

void translate_all(SearchModel& model, const SearchedSources& sources, const TranslateOptions& options,
                   const BatchLimits& limits, const search::TakeBest& take) {
  for (const std::vector<int64_t>& batch : models::length_batches(sources.tokens, limits)) {
    throw_if_interrupted("translating");
    translate_batch(model, sources, batch, options, take);
  }
}

std::vector<std::vector<search::Hypothesis>> translate_all(SearchModel& model, std::span<const Sentence> sources,
                                                           const TranslateOptions& options, const BatchLimits& limits) {
  std::vector<std::vector<search::Hypothesis>> results(sources.size());
  translate_all(model, {sources}, options, limits, [&](int64_t source, std::vector<search::Hypothesis> best) {
    results[static_cast<size_t>(source)] = std::move(best);
  });
  return results;
}

}  // namespace fovea::translation
