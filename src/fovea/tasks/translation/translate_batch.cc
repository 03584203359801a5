#include "fovea/tasks/translation/translate_batch.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "fovea/base/signals.h"

namespace fovea::translation {

std::vector<std::vector<search::Hypothesis>> translate_batch(SearchModel& model,
                                                             std::span<const Sentence* const> sources,
                                                             const TranslateOptions& options) {
  const c10::InferenceMode guard;
  const ModelConfig& config = model.model->config();
  search::BeamOptions beam = options.beam;
  beam.start = beam.eos = options.target_eos;
  std::vector<int64_t> max_lengths;
  for (const Sentence* source : sources) {
    const double limit = std::ceil(options.max_length_factor * static_cast<double>(source->size()));
    auto length = static_cast<int64_t>(std::min(limit, 1e9));
    max_lengths.push_back(longest_text(config, length));
  }
  const PackedSentences packed = models::pack(sources, model.model->output_weight().device());
  const at::Tensor memory = model.model->encode({packed.tokens, packed.offsets}, {});
  return models::beam_search(model, {memory, packed.offsets}, max_lengths, beam, "translating");
}

std::vector<std::vector<search::Hypothesis>> translate_all(SearchModel& model, std::span<const Sentence> sources,
                                                           const TranslateOptions& options, const BatchLimits& limits) {
  std::vector<std::vector<search::Hypothesis>> results(sources.size());
  for (const std::vector<int64_t>& batch : models::length_batches(sources, limits)) {
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
