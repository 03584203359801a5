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

std::vector<std::vector<search::Hypothesis>> translate_batch(SearchModel& model,
                                                             std::span<const Sentence* const> sources,
                                                             const TranslateOptions& options,
                                                             std::vector<search::Demands> demands) {
  const c10::InferenceMode guard;
  const ModelConfig& config = model.model->config();
  search::BeamOptions beam = options.beam;
  beam.start = beam.eos = options.target_eos;
  std::vector<search::BeamSentence> sentences;
  demands.resize(sources.size());
  for (size_t s = 0; s < sources.size(); ++s) {
    const int64_t longest = longest_translation(config, options.max_length_factor, std::ssize(*sources[s]));
    sentences.push_back({beam, longest, std::move(demands[s])});
  }
  const PackedSentences packed = models::pack(sources, model.model->output_weight().device());
  const at::Tensor memory = model.model->encode({packed.tokens, packed.offsets}, {});
  return models::beam_search(model, {memory, packed.offsets}, std::move(sentences), "translating");
}

std::vector<std::vector<search::Hypothesis>> translate_all(SearchModel& model, std::span<const Sentence> sources,
                                                           const TranslateOptions& options, const BatchLimits& limits,
                                                           std::span<const search::Demands> demands) {
  std::vector<std::vector<search::Hypothesis>> results(sources.size());
  for (const std::vector<int64_t>& batch : models::length_batches(sources, limits)) {
    throw_if_interrupted("translating");
    std::vector<const Sentence*> chosen;
    std::vector<search::Demands> demanded;
    chosen.reserve(batch.size());
    for (const int64_t i : batch) {
      chosen.push_back(&sources[static_cast<size_t>(i)]);
      if (!demands.empty()) demanded.push_back(demands[static_cast<size_t>(i)]);
    }
    auto translated = translate_batch(model, chosen, options, std::move(demanded));
    for (size_t i = 0; i < batch.size(); ++i) results[static_cast<size_t>(batch[i])] = std::move(translated[i]);
  }
  return results;
}

}  // namespace fovea::translation
