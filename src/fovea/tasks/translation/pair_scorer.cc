#include "fovea/tasks/translation/pair_scorer.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <variant>

#include "fovea/base/choices.h"
#include "fovea/base/error.h"
#include "fovea/base/shared_work.h"
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
  const auto score = parse_choice<PairScore>(kPairScores, name, "--score");
  if (score == PairScore::kNullRate && !can_have_null_rows(model)) {
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
    std::vector<double> scores = score_pairs(model_, tokens, options_.limits, team_);
    for (size_t i = 0; i < scores.size(); ++i) scores[i] /= static_cast<double>(tokens[i].target.size());
    return scores;
  }
  return null_rates(tokens);
}

std::vector<double> PairScorer::null_rates(const std::vector<SentencePair>& pairs) {
  const auto layers = static_cast<size_t>(model_->config().dec_depth), width = layers + 1;
  // The rates of each pair of a share: of all layers together, then of each.
  const auto rates_of = [&](int64_t share) {
    const auto size = static_cast<int64_t>(pairs.size());
    const int64_t begin = size * share / team_.size(), end = size * (share + 1) / team_.size();
    std::vector<double> rates(static_cast<size_t>(end - begin) * width);
    see_cross_attention(model_, std::span(pairs).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
                        options_.limits, "scoring", [&](size_t i, const at::Tensor& weights_LHQK) {
                          rates[i * width] = 0 - null_share(weights_LHQK);  // 0 and not -0 for none
                          for (size_t layer = 0; layer < layers; ++layer)
                            rates[i * width + 1 + layer] = 0 - null_share(weights_LHQK[static_cast<int64_t>(layer)]);
                        });
    return std::string(reinterpret_cast<const char*>(rates.data()), rates.size() * sizeof rates[0]);
  };
  std::string bytes;
  for (const std::string& share : shared_work(team_, team_.size(), rates_of)) bytes += share;
  const auto rate = [&](size_t pair, size_t place) {
    double value = 0;
    std::memcpy(&value, bytes.data() + (pair * width + place) * sizeof value, sizeof value);
    return value;
  };
  std::vector<double> scores(pairs.size());
  by_layer_.assign(layers, std::vector<double>(pairs.size()));
  for (size_t i = 0; i < pairs.size(); ++i) {
    scores[i] = rate(i, 0);
    for (size_t layer = 0; layer < layers; ++layer) by_layer_[layer][i] = rate(i, 1 + layer);
  }
  return scores;
}

}  // namespace fovea::translation
