#include "fovea/tasks/translation/pair_scorer.h"

#include <algorithm>
#include <variant>

#include "fovea/base/choices.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/spec/model_config.h"
#include "fovea/tasks/translation/cross_attention.h"

namespace fovea::translation {
namespace {

bool can_have_null_rows(const ModelConfig& model) {
  for (int64_t layer = 0; layer < model.dec_depth; ++layer) {
    const LayerSpec groups = attention_of(model, Sublayer::kCross, layer);
    const auto is_relu = [](const HeadGroup& group) { return std::holds_alternative<Relu>(group.spec.transform); };
    if (std::ranges::any_of(groups, is_relu)) return true;
  }
  return false;
}

double null_share(const at::Tensor& weights) { return weights.eq(0).all(-1).to(at::kDouble).mean().item<double>(); }

}  // namespace

PairScore pair_score_of(const std::string& name, const ModelConfig& model) {
  const bool has_nulls = can_have_null_rows(model);
  if (name == "auto") return has_nulls ? PairScore::kNullRate : PairScore::kLogProbability;
  const auto score = parse_choice<PairScore>(kPairScores, name, "--score");
  if (score == PairScore::kNullRate && !has_nulls) {
    throw Error(cat("--score null-rate: the model's cross-attention is ",
                    print(attention_of(model, Sublayer::kCross, 0)),
                    ", whose rows are never all zero; expected relu (ReLA); use --score log-probability"));
  }
  return score;
}

std::vector<double> PairScorer::score(const std::vector<TextPair>& pairs) {
  const std::vector<SentencePair> tokens = encoder_.encode(pairs);
  by_layer_.clear();
  if (options_.score == PairScore::kLogProbability) {
    std::vector<double> scores = score_pairs(model_, tokens, options_.limits);
    for (size_t i = 0; i < scores.size(); ++i) scores[i] /= static_cast<double>(tokens[i].target.size());
    return scores;
  }
  std::vector<double> scores(tokens.size());
  by_layer_.assign(static_cast<size_t>(model_->config().dec_depth), std::vector<double>(tokens.size()));
  see_cross_attention(model_, tokens, options_.limits, "scoring", [&](size_t i, const at::Tensor& weights_LHQK) {
    scores[i] = 0 - null_share(weights_LHQK);  // 0 and not -0 for none
    for (size_t layer = 0; layer < by_layer_.size(); ++layer)
      by_layer_[layer][i] = 0 - null_share(weights_LHQK[static_cast<int64_t>(layer)]);
  });
  return scores;
}

}  // namespace fovea::translation
