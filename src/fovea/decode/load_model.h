#pragma once
#include <string>
#include <vector>

#include "fovea/nn/transformer.h"
#include "fovea/text/vocab.h"

namespace fovea::decode {

// What translating and scoring have in common about the model.
struct ModelChoice {
  std::string folder;               // of a run or of a checkpoint
  std::vector<std::string> vocabs;  // empty: those of the checkpoint
  std::string attention;            // empty: the trained mechanism
  std::string precision = "float32", devices = "cpu";
  int64_t cpu_threads = 0;
};

struct LoadedModel {
  nn::Transformer model;
  text::Vocab source, target;
};

// Threads set, model on its device in its precision, vocabularies checked against it.
LoadedModel load_model(const ModelChoice& choice);

// The fields of a configuration that has them.
template <class Config>
ModelChoice model_choice(const Config& config) {
  return {config.model, config.vocabs, config.attention, config.precision, config.devices, config.cpu_threads};
}

}  // namespace fovea::decode
