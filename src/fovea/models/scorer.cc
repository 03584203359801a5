#include "fovea/models/scorer.h"

#include <cmath>
#include <vector>

#include "fovea/models/diverged.h"
#include "fovea/nn/index_tensor.h"

namespace fovea::models {

PackedSentences pack(std::span<const Sentence* const> sentences, const at::Device& device) {
  std::vector<int64_t> tokens, offsets = {0};
  for (const Sentence* sentence : sentences) {
    tokens.insert(tokens.end(), sentence->begin(), sentence->end());
    offsets.push_back(static_cast<int64_t>(tokens.size()));
  }
  return {nn::index_tensor(std::move(tokens)).to(device), nn::index_tensor(std::move(offsets))};
}

void GivenScore::add(const ops::TokenScores& scores) {
  *this += {.nll = scores.nll.sum(at::kDouble).item<double>(),
            .tokens = scores.nll.numel(),
            .correct = scores.best.sum().item<int64_t>()};
}

float TokenScorer::nll(int64_t token) const {
  const float nll = nll_.const_data_ptr<float>()[token];
  if (!std::isfinite(nll)) refuse_diverged();
  return nll;
}

GivenScore TokenScorer::sum(int64_t begin, int64_t end) const {
  GivenScore score{.tokens = end - begin};
  for (int64_t token = begin; token < end; ++token) {
    score.nll += nll(token);
    score.correct += is_best(token) ? 1 : 0;
  }
  return score;
}

}  // namespace fovea::models
