#include "fovea/tasks/translation/score_pairs.h"

#include <c10/core/InferenceMode.h>

#include <cstring>
#include <string>

#include "fovea/base/shared_work.h"
#include "fovea/base/signals.h"
#include "fovea/data/corpus.h"
#include "fovea/models/scorer.h"
#include "fovea/models/whole_segments.h"

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
  source = models::pack(sources, device);
  input = models::pack(inputs, device);
  outputs = models::pack(targets, device).tokens;
}

std::vector<double> score_pairs(nn::Model& model, std::span<const SentencePair> pairs, const BatchLimits& limits,
                                Collective& team) {
  const c10::InferenceMode guard;
  const at::Device device = model->output_weight().device();
  models::warn_of_whole_segments(model->config());
  const std::vector<std::vector<int64_t>> batches = pair_batches(pairs, limits);
  const auto scores_of = [&](int64_t index) {
    throw_if_interrupted("scoring");
    const std::vector<int64_t>& batch = batches[static_cast<size_t>(index)];
    const ForcedBatch forced(pairs, batch, device);
    const at::Tensor memory = model->encode({forced.source.tokens, forced.source.offsets}, {});
    const at::Tensor hidden =
        model->decode({forced.input.tokens, forced.input.offsets, memory, forced.source.offsets}, {});
    const models::TokenScorer scorer(model, hidden, forced.outputs);
    const auto* bounds = forced.input.offsets.const_data_ptr<int64_t>();
    std::vector<double> scores;
    for (size_t i = 0; i < batch.size(); ++i) scores.push_back(-scorer.sum(bounds[i], bounds[i + 1]).nll);
    return std::string(reinterpret_cast<const char*>(scores.data()), scores.size() * sizeof scores[0]);
  };
  const std::vector<std::string> results = shared_work(team, std::ssize(batches), scores_of);
  std::vector<double> scores(pairs.size());
  for (size_t b = 0; b < batches.size(); ++b) {
    for (size_t i = 0; i < batches[b].size(); ++i)
      std::memcpy(&scores[static_cast<size_t>(batches[b][i])], results[b].data() + i * sizeof(double), sizeof(double));
  }
  return scores;
}

}  // namespace fovea::translation
