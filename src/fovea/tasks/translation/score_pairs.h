#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "fovea/base/collective.h"
#include "fovea/models/batches.h"
#include "fovea/models/scorer.h"
#include "fovea/nn/model.h"

namespace fovea::translation {

using models::BatchLimits;
using models::PackedSentences;
using models::Sentence;

// Token ids, each side ending with </s>.
struct SentencePair {
  Sentence source, target;
};

// Pairs as the model reads them when the target is given: inputs </s>, y1, ... and outputs y1, ..., </s>.
struct ForcedBatch {
  ForcedBatch(std::span<const SentencePair> pairs, std::span<const int64_t> chosen, const at::Device& device);
  PackedSentences source, input;
  at::Tensor outputs;  // token ids [T], of all sentences
};

// Indices of `pairs` in batches of similar target lengths; `limits` are of the target, and the source has at most
// data::kSourceTokensPerTarget times as many tokens.
std::vector<std::vector<int64_t>> pair_batches(std::span<const SentencePair> pairs, const BatchLimits& limits);

// log p(target | source) of every pair, evaluation mode; looks for signals (signals.h) between batches, which the
// processes of a team share.
std::vector<double> score_pairs(nn::Model& model, std::span<const SentencePair> pairs, const BatchLimits& limits,
                                Collective& team = alone());

}  // namespace fovea::translation
