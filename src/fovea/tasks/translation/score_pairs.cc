#include "fovea/tasks/translation/score_pairs.h"

#include <c10/core/InferenceMode.h>

#include <cmath>

#include "fovea/base/signals.h"
#include "fovea/data/corpus.h"
#include "fovea/models/diverged.h"
#include "fovea/models/whole_segments.h"
#include "fovea/ops/step.h"

namespace fovea::translation {

std::vector<std::vector<int64_t>> pair_batches(std::span<const SentencePair> pairs, const BatchLimits& limits) {
  std::vector<Sentence> targets;
  targets.reserve(pairs.size());
  for (const SentencePair& pair : pairs) targets.push_back(pair.target);
  std::vector<std::vector<int64_t>> batches;
  for (const std::vector<int64_t>& by_target : models::length_batches(targets, limits)) {
    int64_t words = 0;
    for (const int64_t i : by_target) {
      const auto size = static_cast<int64_t>(pairs[static_cast<size_t>(i)].source.size());
      if (words == 0 || words + size > data::kSourceTokensPerTarget * limits.max_words) {
        batches.emplace_back();
        words = 0;
      }
      batches.back().push_back(i);
      words += size;
    }
  }
  return batches;
}

ForcedBatch::ForcedBatch(std::span<const SentencePair> pairs, std::span<const int64_t> chosen,
                         const at::Device& device) {
  std::vector<Sentence> shifted;
  std::vector<const Sentence*> sources, inputs, targets;
  for (const int64_t i : chosen) {
    const SentencePair& pair = pairs[static_cast<size_t>(i)];
    shifted.push_back({pair.target.back()});  // </s> starts a target and ends it
    shifted.back().insert(shifted.back().end(), pair.target.begin(), pair.target.end() - 1);
    sources.push_back(&pair.source);
    targets.push_back(&pair.target);
  }
  for (const Sentence& sentence : shifted) inputs.push_back(&sentence);
  source = pack(sources, device);
  input = pack(inputs, device);
  outputs = pack(targets, device).tokens;
}

std::vector<double> score_pairs(nn::Transformer& model, std::span<const SentencePair> pairs,
                                const BatchLimits& limits) {
  const c10::InferenceMode guard;
  const at::Device device = model->output_weight().device();
  models::warn_of_whole_segments(model->config());
  std::vector<double> scores(pairs.size());
  for (const std::vector<int64_t>& batch : pair_batches(pairs, limits)) {
    throw_if_interrupted("scoring");
    const ForcedBatch forced(pairs, batch, device);
    const at::Tensor memory = model->encode(forced.source.tokens, forced.source.offsets, {});
    const at::Tensor hidden =
        model->decode(forced.input.tokens, forced.input.offsets, memory, forced.source.offsets, {});
    const at::Tensor nll = ops::token_nll(hidden, model->output_weight(), model->output_bias(), forced.outputs).cpu();
    const auto* values = nll.const_data_ptr<float>();
    const auto* bounds = forced.input.offsets.const_data_ptr<int64_t>();
    for (size_t i = 0; i < batch.size(); ++i) {
      double sum = 0;
      for (int64_t t = bounds[i]; t < bounds[i + 1]; ++t) sum += values[t];
      if (!std::isfinite(sum)) models::refuse_diverged();
      scores[static_cast<size_t>(batch[i])] = -sum;
    }
  }
  return scores;
}

}  // namespace fovea::translation
