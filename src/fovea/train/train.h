#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "fovea/nn/transformer.h"
#include "fovea/spec/model_config.h"
#include "fovea/spec/train_config.h"
#include "fovea/text/vocab.h"

namespace fovea::train {

struct UpdateReport {
  int64_t epoch = 0, updates = 0;
  double cost = 0;  // label-smoothed, per target token
  double gradient_norm = 0, learn_rate = 0;
};

// Lines to translate with the model as it is.
struct TranslateRequest {
  nn::Transformer& model;
  const text::Vocab &source_vocab, &target_vocab;
  std::span<const std::string> sources;
};

struct Hooks {
  // Validation's translations, one a source line; needed by the metrics bleu and chrf. Whoever calls run_training binds
  // the decoder to it, since training and decoding do not see each other.
  std::function<std::vector<std::string>(const TranslateRequest&)> translate;
  std::function<void(const UpdateReport&)> on_update;  // after each update
};

// Trains in the folder config.model, going on from its last whole checkpoint if it has one. Exact: the same seed gives
// the same files, and a run that is stopped and resumed is bit for bit the run that never stopped.
// SIGINT saves and throws Interrupted; the other signals that stop (signals.h) save and return.
void run_training(const TrainConfig& config, const ModelConfig& model, const Hooks& hooks);

}  // namespace fovea::train
