#pragma once
#include "fovea/nn/checkpoint.h"
#include "fovea/spec/train_config.h"
#include "fovea/tasks/tagging/config.h"
#include "fovea/text/encoder_vocab.h"

namespace torch::nn {
class Module;
}

namespace fovea::tagging {

// What a tagger starts from: its configuration and its vocabulary, as the options and --pretrained-model have them.
struct Beginning {
  TaggingConfig config;  // with the vocabulary's size
  text::EncoderVocab vocab;
};

// With --pretrained-model, or when a run resumes, fields of the model's shape that have their default are those of that
// model; so are its mechanisms unless an --attention option is given. Throws a UsageError for a field that differs, an
// Error for a model of another task, for another vocabulary, and if there is no vocabulary.
Beginning begin_model(const TrainConfig& train, const TaggingConfig& given, const std::string& vocabs);

// The weights of a tagger that starts from `pretrained`. The output layer starts with the module's own weights if
// `has_same_labels` is false, and so do parameters that `pretrained` lacks; the log says so.
nn::NamedTensors tagger_weights(const nn::Checkpoint& pretrained, const torch::nn::Module& module,
                                bool has_same_labels);

}  // namespace fovea::tagging
