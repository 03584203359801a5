#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/base/collective.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/tasks/translation/pair_reader.h"
#include "fovea/tasks/translation/pair_score.h"

namespace fovea::translation {

// The score of that name. Throws an Error for the null rate of a model without relu in its cross-attention, whose rows
// are never all zero.
PairScore pair_score_of(const std::string& name, const ModelConfig& model);

// Scores how well the sides of pairs match, higher is better. Null rate (Zhang, Titov, Sennrich 2021): minus the share
// of the cross-attention's rows (layer, head, target token) whose weights are all exactly 0. Log-probability: of the
// target given the source, per target token. </s> is a token of both sides.
class PairScorer {
 public:
  struct Options {
    PairScore score = PairScore::kLogProbability;
    BatchLimits limits;
    int64_t max_length = 1000;
  };
  // The processes of a team share the pairs; each gets all scores.
  PairScorer(LoadedModel& model, const Options& options, Collective& team = alone())
      : model_(model.model), encoder_(model, options.max_length), options_(options), team_(team) {}

  std::vector<double> score(const std::vector<TextPair>& pairs);
  // The scores of the last score() by each layer alone, [layers][pairs]. Log-probabilities have none.
  const std::vector<std::vector<double>>& by_layer() const { return by_layer_; }
  void report() const { encoder_.report(); }  // at the end

 private:
  std::vector<double> null_rates(const std::vector<SentencePair>& pairs);

  nn::Model& model_;
  PairEncoder encoder_;
  Options options_;
  Collective& team_;
  std::vector<std::vector<double>> by_layer_;
};

}  // namespace fovea::translation
